# shellcheck shell=bash disable=SC2034,SC2086,SC2154 # sourced: names are shared, and the paths have no spaces
# Takes the bare node away, in whatever state it is: whole, half-started, or after kill -9 of anything. There is one way
# for all of them, which asks no program of the node for help: none may be alive. Nothing on the node is worth a
# graceful end.

node_processes() {
  local dir
  dir=$(members)
  [ -d "$dir" ] || return 0
  find "$dir" -name cgroup.procs -exec cat {} + 2>/dev/null | grep -v '^0$' | sort -un || true
}
node_mounts() { awk -v below=$S/ 'index($5, below) == 1 {print $5}' /proc/self/mountinfo | sort -r; }
node_links() { ip -4 -o addr show 2>/dev/null | awk -v a=$pod_gateway/32 '$4 == a {print $2}'; }
node_cgroups() { hierarchies | while read -r h; do [ ! -d "$h/$cgroup" ] || echo "$h/$cgroup"; done; }
node_tables() {
  command -v nft >/dev/null || return 0
  nft list tables 2>/dev/null | sed 's/^table //' | grep -Ex "ip signalbox-bare|ip6? kube-proxy" || true
}
node_leases() { find /var/lib/cni/results -name 'signalbox-bare-*' 2>/dev/null || true; }
# Shims make their sockets outside of the state directory; those that nobody listens to are of no use to anybody.
dead_sockets() {
  local socket
  for socket in /run/containerd/s/*; do
    if [ -S "$socket" ] && ! grep -qF "$socket" /proc/net/unix; then echo "$socket"; fi
  done
}

# Everything of the node that is still on this machine, a line each.
bare_left() {
  node_processes | while read -r pid; do
    echo "process $pid ($(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c1-60))"
  done
  node_mounts | sed 's/^/mount /'
  node_links | sed 's/^/link /'
  ip -4 -o addr show dev lo 2>/dev/null | grep -qF " $node_ip/32" && echo "address $node_ip on lo"
  node_cgroups | sed 's/^/cgroup /'
  # kube-proxy's tables have no owner's name: without the state directory they are another node's.
  if [ -e $S ]; then node_tables; else node_tables | grep signalbox || true; fi | sed 's/^/nft table /'
  node_leases | sed 's/^/CNI result /'
  [ ! -e $S ] || echo "directory $S"
}

end_processes() {
  local pids
  for _ in $(seq 100); do
    pids=$(node_processes)
    [ -n "$pids" ] || return 0
    # shellcheck disable=SC2086 # a list
    kill -9 $pids 2>/dev/null || true
    sleep 0.1
  done
}

unmount_all() {
  local option path
  # More than one round, since mounts lie upon each other; the last one is for a mount that somebody's shell is in.
  for option in '' '' -l; do
    node_mounts | while read -r path; do umount $option "$path" 2>/dev/null || true; done
    [ -n "$(node_mounts)" ] || return 0
  done
}

restore_sysctls() {
  local key value
  [ -f $S/sysctl.before ] || return 0
  while read -r key value; do sysctl -qw "$key=$value" 2>/dev/null || true; done <$S/sysctl.before
}

# Removes all of it; prints what could not be removed and fails then.
bare_clear() {
  local link table path left
  end_processes
  unmount_all
  for link in $(node_links); do ip link del "$link" 2>/dev/null || true; done
  ip addr del $node_ip/32 dev lo 2>/dev/null || true
  if [ -e $S ]; then
    node_tables | while read -r table; do
      # shellcheck disable=SC2086 # family and name
      nft delete table $table || true
    done
    # Connections to Services that are gone would be sent on to pods that are gone.
    if command -v conntrack >/dev/null; then
      conntrack -D -s $pods >/dev/null 2>&1 || true
      conntrack -D -d $services >/dev/null 2>&1 || true
    fi
  fi
  node_leases | while read -r path; do rm -f "$path"; done
  dead_sockets | while read -r path; do rm -f "$path"; done
  # The kubelet links every container's log here, whatever it is told.
  find /var/log/containers -lname "$S/*" -delete 2>/dev/null || true
  # A kubelet has this socket here, whatever its root directory is.
  if [ -S /var/lib/kubelet/device-plugins/kubelet.sock ] && ! grep -qF /var/lib/kubelet/device-plugins/kubelet.sock /proc/net/unix; then
    rm -f /var/lib/kubelet/device-plugins/kubelet.sock
  fi
  # Directories that only the node's programs made are empty by now; others stay.
  rmdir /run/containerd/s /run/containerd/io.containerd.* /run/containerd /var/lib/cni/results /var/lib/cni \
    /var/log/containers /var/lib/kubelet/device-plugins /var/lib/kubelet /run/netns 2>/dev/null || true
  node_cgroups | while read -r path; do find "$path" -depth -type d -exec rmdir {} + 2>/dev/null || true; done
  restore_sysctls
  # The directory goes last, and only when all else is gone: it says that there is something to take away. Never
  # through a mount: behind one can be a person's files.
  if [ "$(bare_left)" = "directory $S" ]; then rm -rf --one-file-system $S 2>/dev/null || true; fi
  left=$(bare_left)
  [ -z "$left" ] || { say "could not remove:"; echo "$left" >&2; return 1; }
}
