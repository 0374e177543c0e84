# shellcheck shell=bash disable=SC2034,SC2086,SC2154 # sourced: names are shared, and the paths have no spaces
# The bare node: where it keeps what it has, and how a process is known to be its own.

# One node per machine, at a fixed place, so that every checkout finds it. The lock is outside of it, since `down`
# removes the place.
S=/var/lib/signalbox-bare
lock_file=/run/lock/signalbox-bare
audit_log=$S/audit/audit.log
kubeconfig=$S/admin.kubeconfig
cgroup=signalbox-bare
node=bare
node_ip=198.18.0.1 # 198.18.0.0/15 is for benchmarks: no real network has it, and a kubelet refuses 127.0.0.1
pods=198.18.1.0/24
pod_gateway=198.18.1.1
services=198.18.2.0/24
api_service=198.18.2.1
daemons="etcd kube-apiserver kube-controller-manager kube-scheduler containerd kubelet kube-proxy coredns"
node_programs="etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl coredns"
# What the node's programs change in the kernel, to be put back.
sysctls="net.ipv4.ip_forward vm.overcommit_memory kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes"
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# All cgroup hierarchies: one for version 2, one per controller for version 1.
hierarchies() { awk '$3 == "cgroup" || $3 == "cgroup2" {print $2}' /proc/mounts; }
# The one whose membership says which processes are the node's: they and all their children, in pods or not. Unlike a
# pid that was written down it cannot mean somebody else's process, and a process cannot leave it by itself.
members() {
  local pids
  pids=$(hierarchies | grep -m1 '/pids$' || hierarchies | head -n 1)
  [ -n "$pids" ] || die "no cgroup hierarchy is mounted; a kubelet needs one"
  echo "$pids/$cgroup"
}

# When a process began, in clock ticks since the machine started. With the boot's id it tells a process from another
# one that got its pid.
began() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
boot() { cat /proc/sys/kernel/random/boot_id; }
runs() { # runs DAEMON: is the process that was started under this name still there?
  local pid start boot_id
  read -r pid start boot_id <"$S/run/$1.pid" 2>/dev/null || return 1
  [ "$boot_id" = "$(boot)" ] && [ "$(began "$pid")" = "$start" ] &&
    [ "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c1)" != Z ]
}

# HOME: kubectl's cache goes with the node. The lock is not for it.
kube() { HOME=$S timeout 20 "$S/bin/kubectl" --kubeconfig "$kubeconfig" --request-timeout=10s "$@" 8>&-; }

# Every program runs and the cluster answers. Prints what is wrong.
healthy() {
  local daemon state
  [ -f $S/ready ] || { echo "it was not started to the end"; return 1; }
  for daemon in $daemons; do runs "$daemon" || { echo "$daemon does not run"; return 1; }; done
  kube get --raw /readyz >/dev/null 2>&1 || { echo "the API server is not ready"; return 1; }
  state=$(kube get node $node -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null) || true
  [ "$state" = True ] || { echo "the node is not Ready"; return 1; }
  ip -4 -o addr show dev lo | grep -qF " $node_ip/32" || { echo "lo has lost $node_ip"; return 1; }
}

# Holds the machine's one lock until the script ends; file descriptor 8 must not reach a daemon.
take_lock() {
  command -v flock >/dev/null || die "missing: flock. As root: apt-get install util-linux"
  mkdir -p /run/lock
  exec 8>>$lock_file
  flock -n 8 || { say "waiting for another \`up\` or \`down\` to end ..."; flock -w 600 8 || die "another \`up\` or \`down\` held $lock_file for ten minutes"; }
}
