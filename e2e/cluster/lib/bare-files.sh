# shellcheck shell=bash disable=SC2034,SC2086,SC2154 # sourced: names are shared, and the paths have no spaces
# The files of the bare node: keys, kubeconfigs, and each program's settings.

write_keys() {
  local names="IP:$node_ip,IP:$api_service,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
  local ec=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
  openssl req -x509 "${ec[@]}" -days 3650 -subj /CN=signalbox-bare -keyout ca.key -out ca.crt
  openssl req "${ec[@]}" -subj /CN=kube-apiserver -keyout apiserver.key -out apiserver.csr
  openssl x509 -req -days 3650 -in apiserver.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out apiserver.crt \
    -extfile <(echo "subjectAltName=$names")
  # How the API server shows the kubelet who it is (logs, exec).
  openssl req "${ec[@]}" -subj /O=system:masters/CN=kube-apiserver -keyout to-kubelet.key -out to-kubelet.csr
  openssl x509 -req -days 3650 -in to-kubelet.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out to-kubelet.crt
  openssl genrsa -out sa.key 2048
  openssl rsa -in sa.key -pubout -out sa.pub
}

# user NAME GROUP FILE: a token for a user, and a kubeconfig with it.
user() {
  local token
  token=$(openssl rand -hex 24)
  echo "$token,$1,$1,\"$2\"" >>$S/pki/tokens.csv
  cat >"$S/$3.kubeconfig" <<K
apiVersion: v1
kind: Config
current-context: signalbox-bare
contexts: [{name: signalbox-bare, context: {cluster: signalbox-bare, user: $3}}]
clusters:
  - name: signalbox-bare
    cluster:
      server: https://$node_ip:6443
      certificate-authority-data: $(base64 -w0 <$S/pki/ca.crt)
users: [{name: $3, user: {token: $token}}]
K
}

write_files() {
  local cni_programs=/usr/lib/cni forward=
  [ -x $cni_programs/ptp ] || cni_programs=/opt/cni/bin
  mkdir -p $S/{run,log,cni,kubelet,audit,containerd,ipam,volume-plugins,pod-logs}
  (
    umask 077
    mkdir -p $S/pki
    cd $S/pki || exit
    write_keys >$S/log/openssl.log 2>&1 || { tail -n 5 $S/log/openssl.log >&2; die "openssl could not make the node's keys"; }
    user admin system:masters admin
    user system:kube-controller-manager '' controller-manager
    user system:kube-scheduler '' scheduler
    user system:kube-proxy '' proxy
    user system:node:$node system:nodes kubelet
    user coredns '' coredns
  )
  own $kubeconfig # readable for who called sudo
  cp "$here/lib/audit-policy.yaml" $S/audit/policy.yaml
  : >$audit_log # made here, since the API server would make it unreadable for others than root
  chmod 644 $audit_log

  # restrict_oom_score_adj: without CAP_SYS_RESOURCE no sandbox starts otherwise. All paths are below the state
  # directory, so that taking the node away takes them all.
  cat >$S/containerd.toml <<K
version = 2
root = "$S/containerd/root"
state = "$S/containerd/state"
[grpc]
  address = "$S/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$S/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  sandbox_image = "$pause"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$cni_programs"
    conf_dir = "$S/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "$S/containerd/runc"
K
  # ptp and not bridge: every packet is routed, so a Service that leads back to the same node works without br_netfilter.
  cat >$S/cni/10-signalbox.conflist <<K
{"cniVersion": "0.4.0", "name": "signalbox-bare", "plugins": [{"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local",
 "dataDir": "$S/ipam", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
K
  # The way out of the machine for pods: one table of our own, since the CNI's rules stay behind after kill -9.
  cat >$S/node.nft <<K
table ip signalbox-bare {
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr $pods ip daddr != 198.18.0.0/16 masquerade
  }
}
K
  : >$S/resolv.conf # pods get the cluster's own search list and nothing of this machine's
  # cgroup version 1 and swap are allowed. makeIPTablesUtilChains off: kube-proxy uses nftables, and nothing would
  # take the chains away.
  cat >$S/kubelet.yaml <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node_ip
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $S/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
containerRuntimeEndpoint: unix://$S/containerd.sock
clusterDNS: ["$node_ip"]
clusterDomain: cluster.local
resolvConf: $S/resolv.conf
podLogsDir: $S/pod-logs
volumePluginDir: $S/volume-plugins
evictionHard: {nodefs.available: "1%", imagefs.available: "1%", memory.available: "100Mi"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
maxPods: 200
K
  # Names outside of the cluster: by whatever this machine asks, if it asks anything.
  grep -q '^nameserver' /etc/resolv.conf 2>/dev/null && forward="forward . /etc/resolv.conf"
  cat >$S/Corefile <<K
.:53 {
    bind $node_ip
    errors
    ready 127.0.0.1:18181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig $S/coredns.kubeconfig
    }
    $forward
    cache 5
}
K
  cat >$S/coredns-rbac.yaml <<K
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: signalbox-bare-coredns}
rules:
  - {apiGroups: [""], resources: [services, namespaces, pods, endpoints], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: signalbox-bare-coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: signalbox-bare-coredns}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: coredns}]
K
}

# The image of a pod's first process, from Kubernetes' own source, as an archive in the cache. Made by hand: a node needs
# no image builder for one file.
pause=localhost/signalbox-pause:1
pause_archive() {
  local version archive source work arch
  version=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$here/go.mod")
  archive=$cache/pause-$version.tar
  if [ ! -f "$archive" ]; then
    command -v go >/dev/null || die "no Go on PATH, to find the source of the pause image. Install Go, or bring $archive from a machine that has it"
    source=$(cd "$here" && GOWORK=off GOFLAGS=-buildvcs=false go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    work=$(mktemp -d)
    mkdir -p "$cache"
    arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
    (
      cd "$work"
      gcc -Os -static -o pause "$source/build/pause/linux/pause.c"
      tar --sort=name --owner=0 --group=0 --mtime=@0 -cf layer.tar pause
      echo "{\"architecture\": \"$arch\", \"os\": \"linux\", \"config\": {\"Entrypoint\": [\"/pause\"], \"User\": \"65535:65535\"}," \
        "\"rootfs\": {\"type\": \"layers\", \"diff_ids\": [\"sha256:$(sha256sum <layer.tar | cut -d' ' -f1)\"]}}" >config.json
      echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$pause\"], \"Layers\": [\"layer.tar\"]}]" >manifest.json
      tar -cf "$archive.$$" manifest.json config.json layer.tar
    ) || die "could not make the pause image from $source"
    mv "$archive.$$" "$archive"
    rm -rf "$work"
    own "$archive"
  fi
  echo "$archive"
}
