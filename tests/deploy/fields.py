"""The fields of the Kubernetes API and of CDI that our files use, as the API names them.

A mapping names fields; `[shape]` is a list, `{str: shape}` any names; a function checks a value. A
field in REQUIRED must be there.
"""

import re


def matches(pattern, what):
    def check(value):
        return None if isinstance(value, str) and re.fullmatch(pattern, value) else f"is no {what}"
    return check


def one_of(*words):
    def check(value):
        return None if value in words else f"is none of {', '.join(words)}"
    return check


def text(value):
    return None if isinstance(value, str) else "is no string"


def flag(value):
    return None if isinstance(value, bool) else "is no boolean"


def whole(value):
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return None if is_whole else "is no integer"


LABEL = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
DNS = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
name = matches(rf"{DNS}(\.{DNS})*", "DNS name")
key = matches(rf"({DNS}(\.{DNS})*/)?{LABEL}", "qualified name")
quantity = matches(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?", "quantity (a string)")
absolute = matches(r"/.*", "absolute path")
capability = matches(r"ALL|(?!CAP_)[A-Z_]+", "capability without CAP_")

METADATA = {"name": name, "namespace": name, "labels": {str: matches(LABEL, "label")},
            "annotations": {str: text}}
SECCOMP = {"type": one_of("RuntimeDefault", "Unconfined", "Localhost"), "localhostProfile": text}
CONTAINER_SECURITY = {
    "privileged": flag, "allowPrivilegeEscalation": flag, "readOnlyRootFilesystem": flag,
    "runAsUser": whole, "runAsGroup": whole, "runAsNonRoot": flag, "seccompProfile": SECCOMP,
    "capabilities": {"add": [capability], "drop": [capability]}}
POD_SECURITY = {"runAsUser": whole, "runAsGroup": whole, "runAsNonRoot": flag, "fsGroup": whole,
                "supplementalGroups": [whole], "seccompProfile": SECCOMP}
PROBE = {"exec": {"command": [text]}, "initialDelaySeconds": whole, "periodSeconds": whole,
         "timeoutSeconds": whole, "failureThreshold": whole, "successThreshold": whole}
CONTAINER = {
    "name": name, "image": text, "imagePullPolicy": one_of("Always", "IfNotPresent", "Never"),
    "command": [text], "args": [text],
    "env": [{"name": matches(r"[A-Za-z_][A-Za-z0-9_]*", "variable"), "value": text,
             "valueFrom": {"fieldRef": {"fieldPath": text}}}],
    "securityContext": CONTAINER_SECURITY,
    "resources": {"requests": {key: quantity}, "limits": {key: quantity}},
    "startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE,
    "volumeMounts": [{"name": name, "mountPath": absolute, "readOnly": flag, "subPath": text}]}
VOLUME = {
    "name": name, "configMap": {"name": name},
    "hostPath": {"path": absolute, "type": one_of("", "Directory", "DirectoryOrCreate", "File",
                                                  "FileOrCreate", "Socket", "CharDevice")},
    "emptyDir": {"medium": one_of("", "Memory", "HugePages-2Mi", "HugePages-1Gi"),
                 "sizeLimit": quantity}}
POD = {
    "nodeSelector": {key: matches(LABEL, "label")}, "serviceAccountName": name,
    "priorityClassName": name, "hostNetwork": flag, "hostPID": flag,
    "restartPolicy": one_of("Always", "OnFailure", "Never"),
    "terminationGracePeriodSeconds": whole, "securityContext": POD_SECURITY,
    "tolerations": [{"key": key, "operator": one_of("Exists", "Equal"), "value": text,
                     "effect": one_of("NoSchedule", "PreferNoSchedule", "NoExecute")}],
    "initContainers": [CONTAINER], "containers": [CONTAINER], "volumes": [VOLUME]}
KINDS = {
    ("v1", "Namespace"): {"metadata": METADATA},
    ("v1", "ServiceAccount"): {"metadata": METADATA},
    ("v1", "ConfigMap"): {"metadata": METADATA, "data": {str: text}},
    ("v1", "Pod"): {"metadata": METADATA, "spec": POD},
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): {
        "metadata": METADATA,
        "rules": [{"apiGroups": [text], "resources": [text],
                   "verbs": [one_of("get", "list", "watch", "patch", "update")]}]},
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): {
        "metadata": METADATA,
        "roleRef": {"apiGroup": text, "kind": one_of("ClusterRole"), "name": name},
        "subjects": [{"kind": one_of("ServiceAccount"), "name": name, "namespace": name}]},
    ("apps/v1", "DaemonSet"): {
        "metadata": METADATA,
        "spec": {"selector": {"matchLabels": {key: matches(LABEL, "label")}},
                 "updateStrategy": {"type": one_of("RollingUpdate", "OnDelete"),
                                    "rollingUpdate": {"maxUnavailable": whole}},
                 "template": {"metadata": dict(METADATA), "spec": POD}}}}
REQUIRED = {id(METADATA): {"name"}, id(CONTAINER): {"name", "image"}, id(VOLUME): {"name"},
            id(POD): {"containers"}}

CDI = {
    "cdiVersion": matches(r"0\.[3-9]\.0|1\.\d\.\d", "version of CDI"),
    "kind": matches(rf"[A-Za-z0-9][A-Za-z0-9_.-]*/{LABEL}", "VENDOR/CLASS"),
    "devices": [{"name": matches(r"[A-Za-z0-9][A-Za-z0-9_.:-]*", "device name"),
                 "containerEdits": {
                     "env": [matches(r"[A-Za-z_][A-Za-z0-9_]*=.*", "NAME=VALUE")],
                     "mounts": [{"hostPath": absolute, "containerPath": absolute,
                                 "options": [text], "type": text}]}}]}
REQUIRED[id(CDI)] = {"cdiVersion", "kind", "devices"}
REQUIRED[id(CDI["devices"][0])] = {"name", "containerEdits"}


def breaches(value, shape, where):
    """A line for everything in `value` that is not of that shape."""
    if callable(shape):
        problem = shape(value)
        if problem:
            yield f"{where}: {value!r} {problem}"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{where}: is no list"
            return
        for index, item in enumerate(value):
            yield from breaches(item, shape[0], f"{where}[{index}]")
    else:
        yield from _of_mapping(value, shape, where)


def _of_mapping(value, shape, where):
    if not isinstance(value, dict):
        yield f"{where}: is no mapping"
        return
    open_key = next((one for one in shape if not isinstance(one, str)), None)
    for field, item in value.items():
        if field in shape:
            yield from breaches(item, shape[field], f"{where}.{field}")
        elif open_key is None:
            yield f"{where}.{field}: the API has no such field"
        else:
            problem = key(field) if open_key is key else text(field)
            if problem:
                yield f"{where}: {field!r} {problem}"
            yield from breaches(item, shape[open_key], f"{where}[{field}]")
    for field in sorted(REQUIRED.get(id(shape), set()) - set(value)):
        yield f"{where}.{field}: is missing"
