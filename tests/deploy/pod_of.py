#!/usr/bin/env python3
"""The pod of deploy/kubernetes/lyred.yaml for `podman kube play`, with its ConfigMap.

usage: pod_of.py FOLDER NAME IMAGE

Writes FOLDER/pod.yaml and FOLDER/config.yaml. Directories of the host are in FOLDER. Left out is
what needs a cluster or a NIC: the container that speaks to the API server, scheduling, devices and
hugepages. The port is on memif.
"""

import os
import sys

import yaml

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/kubernetes")
OF_A_CLUSTER = ("nodeSelector", "tolerations", "serviceAccountName", "priorityClassName")
OF_A_NIC = ("lyre.example/nic", "hugepages-2Mi")
CONFIG = """[daemon]
socket = "/run/lyred/admin.sock"
[[domain]]
name = "jobs"
socket = "/run/lyre/lyred.sock"
group = "lyre-clients"
[[port]]
name = "wire"
device = "net_memif0,role=server,socket=/run/lyred/wire.sock"
address = "10.9.0.1/24"
"""


def read(kind, name):
    with open(os.path.join(SOURCE, "lyred.yaml"), encoding="utf-8") as file:
        return next(one for one in yaml.safe_load_all(file)
                    if one["kind"] == kind and one["metadata"]["name"] == name)


def without_hugepages(spec):
    for container in spec["containers"]:
        container["volumeMounts"] = [mount for mount in container["volumeMounts"]
                                     if mount["name"] != "hugepages"]
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "hugepages"]


def main(folder, name, image):
    spec = read("DaemonSet", "lyred")["spec"]["template"]["spec"]
    for key in OF_A_CLUSTER:
        del spec[key]
    spec["containers"] = [one for one in spec["containers"] if one["name"] == "lyred"]
    daemon = spec["containers"][0]
    for amounts in daemon["resources"].values():
        for key in OF_A_NIC:
            amounts.pop(key, None)
    for container in spec["initContainers"] + spec["containers"]:
        container["image"] = image
    # A root that may not raise the limit of locked memory gives the capability instead.
    if os.environ.get("LOCKED_BY_CAPABILITY"):
        daemon["securityContext"]["capabilities"]["add"].append("IPC_LOCK")
    without_hugepages(spec)
    for volume in spec["volumes"]:
        if "hostPath" in volume:
            volume["hostPath"]["path"] = os.path.join(folder, volume["name"])
    config = read("ConfigMap", "lyred")
    config["data"]["lyred.toml"] = CONFIG
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    for document, file_name in ((pod, "pod.yaml"), (config, "config.yaml")):
        with open(os.path.join(folder, file_name), "w", encoding="utf-8") as file:
            yaml.safe_dump(document, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
