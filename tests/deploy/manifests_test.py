#!/usr/bin/env python3
"""deploy/kubernetes and the CDI file: fields as the APIs name them, and what they refer to.

usage: manifests_test.py SOURCE_ROOT CDI_FILE
"""

import copy
import fnmatch
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fields

SKIP = 77
# Of the Debian package golang-github-container-orchestrated-devices-container-device-interface-dev.
CDI_SCHEMA = ("/usr/share/gocode/src/github.com/container-orchestrated-devices/"
              "container-device-interface/schema/schema.json")


def documents(name):
    import yaml
    with open(os.path.join(ROOT, "deploy/kubernetes", name), encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def api_breaches(document):
    kind = (document.get("apiVersion"), document.get("kind"))
    shape = fields.KINDS.get(kind)
    if shape is None:
        return [f"{kind}: unknown kind"]
    rest = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    return list(fields.breaches(rest, shape, kind[1]))


def pod_breaches(pod):
    """References inside a pod, and what the API asks of fields together."""
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for volume in pod.get("volumes", []):
        if len(volume) != 2:
            yield f"volume {volume['name']}: not one source"
    used = set()
    for container in pod.get("initContainers", []) + pod["containers"]:
        for mount in container.get("volumeMounts", []):
            used.add(mount["name"])
            if mount["name"] not in volumes:
                yield f"{container['name']}: no volume {mount['name']}"
        resources = container.get("resources", {})
        for resource, amount in resources.get("limits", {}).items():
            asked = resources.get("requests", {}).get(resource, amount)
            if ("/" in resource or resource.startswith("hugepages")) and asked != amount:
                yield f"{container['name']}: {resource} cannot be overcommitted"
    for name in sorted(volumes - used):
        yield f"volume {name} is not mounted"


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.daemon = documents("lyred.yaml")
        self.job = documents("job.yaml")[0]
        self.on_service = documents("job_on_service.yaml")[0]
        self.domains = documents("domains.yaml")
        self.jobs = [self.job["spec"], self.on_service["spec"], self.domains[1]["spec"]]
        self.pod = next(one for one in self.daemon
                        if one["kind"] == "DaemonSet")["spec"]["template"]["spec"]

    def container(self, name):
        return next(one for one in self.pod["containers"] if one["name"] == name)

    def test_fields_are_those_of_the_api(self):
        for document in [*self.daemon, self.job, self.on_service, *self.domains]:
            self.assertEqual(api_breaches(document), [])

    def test_a_wrong_file_is_found(self):
        for change, said in (
                (lambda d: d["spec"].update(hostPid=True), "no such field"),
                (lambda d: d["spec"]["containers"][0].pop("image"), "is missing"),
                (lambda d: d["spec"]["containers"][0].update(command="lyred"), "is no list"),
                (lambda d: d["spec"]["containers"][0]["securityContext"]["capabilities"].update(
                    add=["CAP_NET_RAW"]), "without CAP_"),
                (lambda d: d["spec"]["containers"][0].update(
                    resources={"limits": {"cpu": 1}}), "is no quantity"),
                (lambda d: d["spec"].update(runtime="x"), "no such field")):
            document = copy.deepcopy(self.job)
            change(document)
            found = api_breaches(document)
            self.assertEqual(len(found), 1, found)
            self.assertIn(said, found[0])

    def test_references_are_there(self):
        for spec in (self.pod, *self.jobs):
            self.assertEqual(list(pod_breaches(spec)), [])
        named = {(one["kind"], one["metadata"]["name"]) for one in self.daemon}
        for volume in self.pod["volumes"]:
            if "configMap" in volume:
                self.assertIn(("ConfigMap", volume["configMap"]["name"]), named)
        self.assertIn(("ServiceAccount", self.pod["serviceAccountName"]), named)
        binding = next(one for one in self.daemon if one["kind"] == "ClusterRoleBinding")
        self.assertIn(("ClusterRole", binding["roleRef"]["name"]), named)
        self.assertIn(("ServiceAccount", binding["subjects"][0]["name"]), named)
        daemon_set = next(one for one in self.daemon if one["kind"] == "DaemonSet")
        labels = daemon_set["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(daemon_set["spec"]["selector"]["matchLabels"].items(), labels.items())

    def test_the_daemon_has_the_capabilities_of_its_service(self):
        unit = read("config/lyred.service.in")
        service = re.search(r"^AmbientCapabilities=(.*)$", unit, re.MULTILINE)[1].split()
        # With these lyred-container changes user, limits, and the owner of /run/lyre.
        entry = {"CHOWN", "SETGID", "SETPCAP", "SETUID", "SYS_RESOURCE"}
        given = self.container("lyred")["securityContext"]["capabilities"]
        self.assertEqual(set(given["add"]), entry | {name.removeprefix("CAP_") for name in service})
        self.assertEqual(given["drop"], ["ALL"])
        self.assertTrue(self.pod["hostNetwork"] and self.pod["hostPID"])

    # Root of any container could use up what a uid has at a socket that jobs are given, and the
    # kubelet would end the daemon.
    def test_the_probes_ask_a_socket_that_no_job_has(self):
        daemon = self.container("lyred")
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            command = daemon[name]["exec"]["command"]
            self.assertIn("--reuid=lyre", command, name)
            self.assertEqual(command[-2:], ["lyre", "status"], name)
        socket = next(one["value"] for one in daemon["env"] if one["name"] == "LYRE_SOCKET")
        for document in [*self.daemon, self.domains[0]]:
            text = document.get("data", {}).get("lyred.toml")
            if text is not None:
                settings = tomllib.loads(text)
                self.assertEqual(settings["daemon"]["socket"], socket)
                self.assertNotIn(socket, [one["socket"] for one in settings["domain"]])
        folder = next(one["name"] for one in daemon["volumeMounts"]
                      if one["mountPath"] == os.path.dirname(socket))
        self.assertIn("emptyDir", next(one for one in self.pod["volumes"]
                                       if one["name"] == folder))

    def exit_of_for_jobs(self, config):
        """Of the script of the init container, with that file, and its lines of stderr."""
        *shell, script = self.pod["initContainers"][0]["command"]
        self.assertEqual(script.count("/etc/lyre/lyred.toml"), 1)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("install", "chown", "chmod"):
                os.symlink("/bin/true", os.path.join(folder, name))
            path = os.path.join(folder, "lyred.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(config)
            done = subprocess.run([*shell, script.replace("/etc/lyre/lyred.toml", path)],
                                  capture_output=True, text=True, timeout=60, check=False,
                                  env={"PATH": folder + os.pathsep + os.environ["PATH"]})
        return done.returncode, done.stderr.splitlines()

    # The daemon would run, and its probes would end it again and again.
    def test_a_configuration_without_that_socket_is_refused_first(self):
        mounts = {one["mountPath"]: one["name"]
                  for one in self.pod["initContainers"][0]["volumeMounts"]}
        self.assertEqual(mounts["/etc/lyre"], "config")
        for name in ("lyred.yaml", "domains.yaml"):
            config = next(one for one in documents(name) if "lyred.toml" in one.get("data", {}))
            self.assertEqual(self.exit_of_for_jobs(config["data"]["lyred.toml"]), (0, []), name)
        socket = next(one["value"] for one in self.container("lyred")["env"]
                      if one["name"] == "LYRE_SOCKET")
        for config in ("", '[[port]]\nname = "rail0"\n', f'# socket = "{socket}"\n'):
            code, lines = self.exit_of_for_jobs(config)
            self.assertEqual((code, len(lines)), (1, 1), lines)
            self.assertIn(socket, lines[0])

    # RollingUpdate deletes the pod before the image is there.
    def test_a_daemon_is_not_replaced_under_a_job_unasked(self):
        daemon_set = next(one for one in self.daemon if one["kind"] == "DaemonSet")
        self.assertEqual(daemon_set["spec"]["updateStrategy"], {"type": "OnDelete"})

    def test_jobs_wait_for_a_daemon_that_the_kubelet_starts_again(self):
        for spec in self.jobs:
            settings = {one["name"]: one["value"] for one in spec["containers"][0]["env"]}
            self.assertGreaterEqual(int(settings["LYRE_RESUME_SECONDS"]), 120)

    # The control thread opens ports again, for up to 10 s at each attempt.
    def test_a_port_that_is_opened_again_is_waited_for(self):
        unit = read("config/lyred.service.in")
        watchdog = re.search(r"^WatchdogSec=(\d+)$", unit, re.MULTILINE)[1]
        probe = self.container("lyred")["livenessProbe"]
        patience = probe["periodSeconds"] * probe["failureThreshold"]
        self.assertGreaterEqual(patience, max(90, int(watchdog)))

    def test_the_job_has_nothing_privileged(self):
        for spec in self.jobs:
            self.assertFalse({"hostNetwork", "hostPID"} & set(spec))
            self.assertTrue(spec["securityContext"]["runAsNonRoot"])
            security = spec["containers"][0]["securityContext"]
            self.assertEqual((security["privileged"], security["allowPrivilegeEscalation"],
                              security["capabilities"]), (False, False, {"drop": ["ALL"]}))
            self.assertNotIn("tolerations", spec)
            self.assertEqual(spec["securityContext"]["supplementalGroups"],
                             self.job["spec"]["securityContext"]["supplementalGroups"])

    def test_a_job_writes_nothing_but_telemetry(self):
        for spec in self.jobs:
            for mount in spec["containers"][0]["volumeMounts"]:
                self.assertEqual(mount.get("readOnly", False), mount["name"] != "telemetry",
                                 mount["name"])

    # A type Directory or File that is not on the node keeps the pod from its start.
    def test_a_job_on_the_service_mounts_what_the_packages_have(self):
        plugin = read("debian/lyre-nccl.install").splitlines()[0]
        folders = re.findall(r"^d (\S+)", read("config/lyre.tmpfiles"), re.MULTILINE)
        for volume in self.on_service["spec"]["volumes"]:
            path, kind = volume["hostPath"]["path"], volume["hostPath"]["type"]
            if kind == "File":
                self.assertTrue(fnmatch.fnmatch(path, "/" + plugin), path)
            else:
                self.assertEqual(kind, "Directory")
                self.assertIn(path, folders)
        mounts = {one["name"]: one["mountPath"]
                  for one in self.on_service["spec"]["containers"][0]["volumeMounts"]}
        settings = {one["name"]: one["value"]
                    for one in self.on_service["spec"]["containers"][0]["env"]}
        self.assertEqual(settings["NCCL_NET_PLUGIN"], mounts["plugin"])
        self.assertEqual(settings["LYRE_TELEMETRY_DIR"], mounts["telemetry"])

    def test_the_daemon_set_leaves_nodes_with_the_service_alone(self):
        labels = self.on_service["spec"]["nodeSelector"]
        self.assertFalse(set(labels) & set(self.pod["nodeSelector"]))

    def test_jobs_differ_in_where_the_plugin_is_only(self):
        here, there = copy.deepcopy(self.on_service["spec"]), copy.deepcopy(self.job["spec"])
        for spec in (here, there):
            del spec["nodeSelector"]
            for entries in (spec["volumes"], spec["containers"][0]["volumeMounts"]):
                entries[:] = [one for one in entries if one["name"] != "plugin"]
        self.assertEqual(here, there)

    def test_a_pod_of_a_domain_gets_its_socket_only(self):
        config, pod = self.domains
        self.assertIn(config["metadata"], [one["metadata"] for one in self.daemon])
        text = config["data"]["lyred.toml"]
        sockets = re.findall(r'^socket = "(.*)/[^/]*"$', text, re.MULTILINE)
        host_paths = {one["name"]: one["hostPath"]["path"] for one in pod["spec"]["volumes"]}
        self.assertEqual(host_paths["socket"], "/run/lyre/team-a")
        self.assertIn("/run/lyre/team-a", sockets)
        # No directory that it gets has the socket of another domain in it, or below.
        others = [one for one in sockets if one != "/run/lyre/team-a"]
        self.assertEqual(len(others), 3)
        for other in others:
            for path in host_paths.values():
                self.assertFalse((other + "/").startswith(path + "/"), f"{path} has {other}")
        mounts = {one["name"]: one["mountPath"]
                  for one in pod["spec"]["containers"][0]["volumeMounts"]}
        self.assertEqual(mounts["socket"], "/run/lyre")

    def test_the_group_is_that_of_the_image(self):
        gid = int(re.search(r"gid=(\d+)", read("deploy/container/build"))[1])
        self.assertEqual(self.job["spec"]["securityContext"]["supplementalGroups"], [gid])
        self.assertEqual(self.container("node-taint")["securityContext"]["runAsGroup"], gid)

    def test_image_and_taint_have_one_name(self):
        version = re.search(r"version : '(.*)'", read("meson.build"))[1]
        images = {one["image"] for one in self.pod["initContainers"] + self.pod["containers"]}
        self.assertEqual(images, {f"localhost/lyre:{version}"})
        taint = re.search(r'"key": "([^"]+)"', read("deploy/kubernetes/node_taint"))[1]
        self.assertEqual(self.pod["tolerations"][0]["key"], taint)

    def test_the_configuration_is_toml_with_known_sections(self):
        config = next(one for one in self.daemon
                      if one["metadata"]["name"] == "lyred" and one["kind"] == "ConfigMap")
        self.assertIn("[[port]]", config["data"]["lyred.toml"])
        nics = next(one for one in self.daemon if one["metadata"]["name"] == "lyre-nics")
        resource = json.loads(nics["data"]["config.json"])["resourceList"][0]
        self.assertIn(f"{resource['resourcePrefix']}/{resource['resourceName']}",
                      self.container("lyred")["resources"]["limits"])

    def test_what_clients_can_cause_fits_the_memory_of_the_daemon(self):
        limit = self.container("lyred")["resources"]["limits"]["memory"]
        # Of a context: arena, rings and copies with 16 workers.
        own, context, contexts_wanted = 512 << 20, 83 << 20, 16
        for name in ("lyred.yaml", "domains.yaml"):
            config = next(one for one in documents(name) if "lyred.toml" in one.get("data", {}))
            settings = tomllib.loads(config["data"]["lyred.toml"])
            clients = settings["clients"]
            arenas = clients["arena_bytes_per_uid_max"]
            wanted = [one.get("contexts_max", contexts_wanted)
                      for one in settings.get("domain", [])]
            self.assertGreaterEqual(arenas, max(wanted, default=contexts_wanted) * context, name)
            each = arenas + clients["registered_bytes_per_uid_max"]
            users = len(settings.get("domain", [None]))
            self.assertLessEqual(users * each + own, int(limit.removesuffix("Gi")) << 30, name)


class Cdi(unittest.TestCase):
    def setUp(self):
        with open(CDI_FILE, encoding="utf-8") as file:
            self.spec = json.load(file)

    def test_fields_are_those_of_cdi(self):
        self.assertEqual(list(fields.breaches(self.spec, fields.CDI, "CDI")), [])
        self.spec["devices"][0]["containerEdits"]["mount"] = []
        self.assertEqual(len(list(fields.breaches(self.spec, fields.CDI, "CDI"))), 1)

    @unittest.skipUnless(os.path.exists(CDI_SCHEMA) and importlib.util.find_spec("jsonschema"),
                         "no schema of CDI on this machine")
    def test_the_schema_takes_it(self):
        import jsonschema
        warnings.simplefilter("ignore", DeprecationWarning)
        with open(CDI_SCHEMA, encoding="utf-8") as file:
            schema = json.load(file)
        resolver = jsonschema.RefResolver("file://" + CDI_SCHEMA, schema)
        jsonschema.validate(self.spec, schema, resolver=resolver)

    def test_a_job_writes_nothing_but_telemetry(self):
        edits = self.spec["devices"][0]["containerEdits"]
        settings = dict(one.split("=", 1) for one in edits["env"])
        for mount in edits["mounts"]:
            access = "rw" if mount["containerPath"] == settings["LYRE_TELEMETRY_DIR"] else "ro"
            self.assertEqual({"ro", "rw"} & set(mount["options"]), {access}, mount)

    def test_a_job_gets_neither_devices_nor_the_daemons_directory(self):
        edits = self.spec["devices"][0]["containerEdits"]
        self.assertEqual(set(edits), {"env", "mounts"})
        self.assertNotIn("/run/lyred", [mount["hostPath"] for mount in edits["mounts"]])
        targets = [mount["containerPath"] for mount in edits["mounts"]]
        settings = dict(one.split("=", 1) for one in edits["env"])
        self.assertIn(settings["NCCL_NET_PLUGIN"], targets)
        self.assertEqual(settings["NCCL_NET_PLUGIN_REF_COUNT"], "1")
        self.assertIn(settings["LYRE_TELEMETRY_DIR"], targets)


if __name__ == "__main__":
    CDI_FILE = sys.argv.pop()
    ROOT = sys.argv.pop()
    if importlib.util.find_spec("yaml") is None:
        print("SKIP: no python3-yaml on this machine")
        sys.exit(SKIP)
    unittest.main(verbosity=2)
