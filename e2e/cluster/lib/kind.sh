# shellcheck shell=bash disable=SC2034,SC2086,SC2154 # sourced: names are shared, and the paths have no spaces
# The kind cluster: a node in a container of Docker or Podman. State is per user, as the engine's is.
kind_name=signalbox
K=${XDG_STATE_HOME:-${HOME:?}/.local/state}/signalbox-kind
audit_log=$K/audit/audit.log
in_node=/var/lib/signalbox-audit # where the node and the API server's pod see $K/audit

kind_ready() {
  engine=$(container_engine) || die "CLUSTER=kind needs Docker or Podman, and neither answers. Start one, or use CLUSTER=bare (Linux, root)"
  command -v kind >/dev/null || die "CLUSTER=kind needs kind on PATH. Install it, or use CLUSTER=bare (Linux, root)"
  if [ "$engine" = podman ]; then export KIND_EXPERIMENTAL_PROVIDER=podman; fi
  mkdir -p "$K/audit"
  exec 8>>"$K.lock"
  flock -n 8 || { say "waiting for another \`up\` or \`down\` to end ..."; flock -w 600 8 || die "another \`up\` or \`down\` held $K.lock for ten minutes"; }
}

kind_exists() { kind get clusters 2>/dev/null 8>&- | grep -qx "$kind_name"; }

# A node container that was stopped (a reboot) does not count: it may have another address now.
kind_healthy() {
  [ -f "$K/ready" ] || { echo "it was not started to the end"; return 1; }
  [ "$("$engine" inspect -f '{{.State.Running}}' "$kind_name-control-plane" 2>/dev/null)" = true ] || { echo "its node does not run"; return 1; }
  timeout 20 "$kubectl" --kubeconfig "$K/kubeconfig" get --raw /readyz >/dev/null 2>&1 || { echo "its API server is not ready"; return 1; }
}

# The audit settings twice: kubeadm's v1beta3 has a map of arguments, v1beta4 a list. kind applies the one that fits.
kind_config() {
  local volume="extraVolumes: [{name: audit, hostPath: $in_node, mountPath: $in_node, readOnly: false, pathType: Directory}]"
  cat <<Y
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
  - role: control-plane
    extraMounts:
      - {hostPath: $K/audit, containerPath: $in_node}
    kubeadmConfigPatches:
      - |
        apiVersion: kubeadm.k8s.io/v1beta3
        kind: ClusterConfiguration
        apiServer:
          extraArgs:
            audit-policy-file: $in_node/policy.yaml
            audit-log-path: $in_node/audit.log
            audit-log-maxsize: "500"
          $volume
      - |
        apiVersion: kubeadm.k8s.io/v1beta4
        kind: ClusterConfiguration
        apiServer:
          extraArgs:
            - {name: audit-policy-file, value: $in_node/policy.yaml}
            - {name: audit-log-path, value: $in_node/audit.log}
            - {name: audit-log-maxsize, value: "500"}
          $volume
Y
}

kind_up() {
  local kubectl why
  kubectl=$(tool kubectl)
  kind_ready
  if kind_exists && why=$(kind_healthy); then
    say "the kind cluster runs already"
  else
    if kind_exists; then
      say "taking away a kind cluster that is not whole: ${why:-}"
      kind delete cluster --name $kind_name >&2 8>&-
    fi
    rm -rf "$K"
    mkdir -p "$K/audit"
    cp "$here/lib/audit-policy.yaml" "$K/audit/policy.yaml"
    : >"$audit_log" # made here, since the API server would make it readable for the node's root only
    chmod 644 "$audit_log"
    kind_config >"$K/config.yaml"
    kind create cluster --name $kind_name --config "$K/config.yaml" --kubeconfig "$K/kubeconfig" --wait 180s \
      ${KIND_NODE_IMAGE:+--image "$KIND_NODE_IMAGE"} >&2 8>&- ||
      die "kind could not make the cluster, see above. Where no registry is reached, load a kindest/node image into $engine and name it in KIND_NODE_IMAGE"
    timeout 60 "$kubectl" --kubeconfig "$K/kubeconfig" -n default wait --for=create serviceaccount/default --timeout=60s >&2 8>&-
    touch "$K/ready"
    say "the kind cluster is Ready after $SECONDS s"
  fi
  exec 8>&-
  echo "$K/kubeconfig"
}

kind_down() {
  kind_ready
  if kind_exists; then kind delete cluster --name $kind_name >&2 8>&-; else say "nothing to take away"; fi
  rm -rf "$K"
  if kind_exists || [ -e "$K" ]; then die "could not remove the kind cluster $kind_name or $K"; fi
  rm -f "$K.lock"
}

kind_load() { # kind_load IMAGE
  local id there
  id=$("$engine" image inspect -f '{{.Id}}' "$1") || die "$engine has no image $1; \`images\` makes it"
  there=$("$engine" exec "$kind_name-control-plane" crictl inspecti -o go-template --template '{{.status.id}}' "$1" 2>/dev/null) || true
  if [ "${id#sha256:}" = "${there#sha256:}" ]; then
    say "$1 is there"
    return
  fi
  say "loading $1 ..."
  if [ "$engine" = docker ]; then
    kind load docker-image "$1" --name $kind_name >&2
  else
    "$engine" save --format docker-archive -o "$work/image.tar" "$1"
    kind load image-archive "$work/image.tar" --name $kind_name >&2
    rm -f "$work/image.tar"
  fi
}
