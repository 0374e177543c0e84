# shellcheck shell=bash disable=SC1091,SC2034,SC2086,SC2154 # sourced: names are shared, and the paths have no spaces
# Starts the bare node: etcd, the control plane, containerd, kubelet, kube-proxy and CoreDNS as plain processes.
. "$here/lib/bare-state.sh"
. "$here/lib/bare-files.sh"
. "$here/lib/bare-clear.sh"

bare_packages() {
  packages containerd=containerd ctr=containerd runc=runc /usr/lib/cni/ptp=containernetworking-plugins nft=nftables \
    conntrack=conntrack ip=iproute2 openssl=openssl mount=mount sysctl=procps flock=util-linux
  [ -f "$cache/pause-$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$here/go.mod").tar" ] ||
    packages gcc=gcc /usr/include/stdio.h=libc6-dev
}

# start NAME PROGRAM ARGUMENT...: runs it as a daemon of the node. The new process itself joins the cgroup and writes
# down who it is before it becomes the program, so that at no moment there is a daemon nobody knows of; until then it
# holds the lock (8), so that no other `up` can take the node away under it.
start() {
  local name=$1
  shift
  # Nothing of the caller's environment: a proxy setting would send the node's own traffic away.
  # shellcheck disable=SC2016 # the inner shell expands
  env -i PATH="$PATH" HOME=/root setsid bash -c '
    echo $$ >"$2/cgroup.procs" || exit 1
    echo "$$ $(sed "s/.*) //" /proc/$$/stat | cut -d" " -f20) $(cat /proc/sys/kernel/random/boot_id)" >"$1.new"
    mv "$1.new" "$1.pid"
    shift 2
    # A lock that the caller holds by a descriptor must not outlive the caller in a daemon.
    for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
    exec "$@"' start "$S/run/$name" "$(members)/daemons" "$@" </dev/null >"$S/log/$name.log" 2>&1 &
  for _ in $(seq 200); do [ ! -f "$S/run/$name.pid" ] || return 0; sleep 0.02; done
  die "$name did not start: $(tail -n 3 "$S/log/$name.log")"
}

# wait_for SECONDS DAEMON WHAT COMMAND...: until it succeeds; gives up at once when the daemon has ended.
wait_for() {
  local seconds=$1 daemon=$2 what=$3 end
  shift 3
  end=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    if ! runs "$daemon" || [ "$SECONDS" -ge "$end" ]; then
      say "$what: not within $seconds s. The last lines of $S/log/$daemon.log:"
      tail -n 15 "$S/log/$daemon.log" >&2
      die "the node did not start; \`down\` takes it away, \`up\` tries again"
    fi
    sleep 0.1
  done
}

free_ports() {
  local address listening who
  for address in $node_ip:6443 $node_ip:10250 $node_ip:53 127.0.0.1:12379 127.0.0.1:12380 127.0.0.1:10248 127.0.0.1:10249 \
    127.0.0.1:10256 127.0.0.1:18181; do
    # On that address or on all of them.
    listening=$(ss -Hltnp "sport = :${address##*:}" | awk -v a="$address" -v p=":${address##*:}" '$4 == a || $4 == "0.0.0.0" p || $4 == "*" p || $4 == "[::]" p')
    [ -n "$listening" ] || continue
    who=$(grep -Eom1 'users:.*' <<<"$listening" || true)
    die "$address is in use by another program ${who#users:}; end it, or use CLUSTER=kind"
  done
}

make_ground() {
  local h key
  mkdir -p $S
  chmod 755 $S
  for key in $sysctls; do sysctl "$key" 2>/dev/null | sed 's/ = / /' || true; done >$S/sysctl.new
  mv $S/sysctl.new $S/sysctl.before
  for h in $(hierarchies); do
    mkdir -p "$h/$cgroup" 2>/dev/null || continue
    # A version 1 cpuset has no processors until it is told which, and takes no process before.
    for key in cpuset.cpus cpuset.mems; do
      if [ -f "$h/$key" ] && [ -f "$h/$cgroup/$key" ] && [ -z "$(<"$h/$cgroup/$key")" ]; then cat "$h/$key" >"$h/$cgroup/$key"; fi
    done
  done
  mkdir -p "$(members)/daemons"
  ip addr add $node_ip/32 dev lo
  sysctl -qw net.ipv4.ip_forward=1
}

start_all() {
  local programs=$1 etcd=http://127.0.0.1:12379
  ln -s "$programs" $S/bin
  nft -f $S/node.nft || die "nftables refused $S/node.nft: the kernel needs nf_tables with NAT"
  start etcd $S/bin/etcd --data-dir $S/etcd --unsafe-no-fsync --listen-client-urls $etcd --advertise-client-urls $etcd \
    --listen-peer-urls http://127.0.0.1:12380
  start kube-apiserver $S/bin/kube-apiserver --etcd-servers=$etcd --bind-address=$node_ip --advertise-address=$node_ip \
    --secure-port=6443 --tls-cert-file=$S/pki/apiserver.crt --tls-private-key-file=$S/pki/apiserver.key \
    --service-account-key-file=$S/pki/sa.pub --service-account-signing-key-file=$S/pki/sa.key \
    --service-account-issuer=https://kubernetes.default.svc --token-auth-file=$S/pki/tokens.csv \
    --kubelet-client-certificate=$S/pki/to-kubelet.crt --kubelet-client-key=$S/pki/to-kubelet.key \
    --kubelet-preferred-address-types=InternalIP --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-cluster-ip-range=$services --allow-privileged=true --audit-policy-file=$S/audit/policy.yaml \
    --audit-log-path=$audit_log --audit-log-maxsize=500
  start containerd containerd --config $S/containerd.toml
  wait_for 30 containerd "containerd" ctr -a $S/containerd.sock version
  ctr -a $S/containerd.sock -n k8s.io image import "$pause_file" >$S/log/import.log 2>&1 8>&- ||
    die "containerd did not take the pause image: $(tail -n 3 $S/log/import.log)"
  wait_for 90 kube-apiserver "the API server" kube get --raw /readyz
  say "the API server answers"
  # The limits: each controller fetches a token of its own, for which the default of 20 requests a second takes 5 s.
  start kube-controller-manager $S/bin/kube-controller-manager --kubeconfig=$S/controller-manager.kubeconfig \
    --service-account-private-key-file=$S/pki/sa.key --root-ca-file=$S/pki/ca.crt --use-service-account-credentials=true \
    --leader-elect=false --secure-port=0 --kube-api-qps=500 --kube-api-burst=1000 --flex-volume-plugin-dir=$S/volume-plugins
  start kube-scheduler $S/bin/kube-scheduler --kubeconfig=$S/scheduler.kubeconfig --leader-elect=false --secure-port=0
  start kubelet $S/bin/kubelet --config $S/kubelet.yaml --kubeconfig $S/kubelet.kubeconfig --hostname-override $node \
    --root-dir $S/kubelet --cert-dir $S/kubelet/pki --node-ip $node_ip
  # Zeros: kube-proxy leaves the machine's conntrack limits as they are.
  start kube-proxy $S/bin/kube-proxy --kubeconfig=$S/proxy.kubeconfig --proxy-mode=nftables --cluster-cidr=$pods \
    --hostname-override=$node --healthz-bind-address=127.0.0.1:10256 --metrics-bind-address=127.0.0.1:10249 \
    --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
  kube apply -f $S/coredns-rbac.yaml >$S/log/apply.log 2>&1 || die "the API server refused CoreDNS' rights: $(tail -n 3 $S/log/apply.log)"
  start coredns $S/bin/coredns -conf $S/Corefile
  wait_for 60 coredns "DNS" ready_answers 18181/ready
  wait_for 60 kube-proxy "Services" ready_answers 10256/healthz
  wait_for 90 kubelet "the node Ready" node_ready
  # Jobs cannot make pods before this exists.
  wait_for 30 kube-controller-manager "the default ServiceAccount" kube -n default get serviceaccount default
}

# Without curl: does http://127.0.0.1:PORT/PATH answer 200?
ready_answers() {
  local line
  (
    exec 3<>"/dev/tcp/127.0.0.1/${1%%/*}"
    printf 'GET /%s HTTP/1.0\r\nHost: localhost\r\n\r\n' "${1#*/}" >&3
    read -r -t 5 line <&3
    [[ $line == *" 200 "* ]]
  ) 2>/dev/null 8>&-
}
node_ready() { [ "$(kube get node $node -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }

# What the node was made from, to tell a person when a newer checkout finds an older node.
fingerprint() { cat "$here"/go.mod "$here"/coredns/go.mod "$here"/lib/bare*.sh "$here/lib/audit-policy.yaml" | sha256sum | cut -c1-16; }

bare_up() {
  local programs why pause_file
  need_root # before minutes of building
  # shellcheck disable=SC2086 # a list
  programs=${SIGNALBOX_PROGRAMS_DIR:-$("$here/programs" $node_programs)}
  export SIGNALBOX_PROGRAMS_DIR=$programs
  as_root
  bare_packages
  pause_file=$(pause_archive)
  take_lock
  if why=$(healthy); then
    say "the node runs already"
    [ "$(<$S/ready)" = "$(fingerprint)" ] || say "note: it was started by another version of these scripts; \`down\`, then \`up\`, renews it"
  else
    if [ -n "$(bare_left)" ]; then
      say "taking away a node that is not whole: $why"
      bare_clear || die "the machine has to be cleaned of the above first"
    fi
    free_ports
    make_ground
    write_files
    start_all "$programs"
    fingerprint >$S/ready.new
    mv $S/ready.new $S/ready
    say "the node is Ready after $SECONDS s"
  fi
  exec 8>&-
  echo $kubeconfig
}

bare_down() {
  as_root
  take_lock
  if [ -z "$(bare_left)" ]; then say "nothing to take away"; else bare_clear && say "the node is gone"; fi
}
