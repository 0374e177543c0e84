# shellcheck shell=bash disable=SC2034
# What every script of this directory shares. Sourced; sets `here` to e2e/cluster.
shopt -s inherit_errexit # a failure inside of $(...) ends the script too
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
me=${0##*/}

say() { echo "$me: $*" >&2; }
die() { say "$*"; exit 1; }

# The first comment block of a script is its help.
help_of() { awk 'NR > 1 && /^#/ {sub(/^# ?/, ""); print; next} NR > 1 {exit}' "$1"; }

# Only a Docker or Podman that answers counts: a client without a daemon is common.
container_engine() {
  local engine
  for engine in docker podman; do
    if command -v "$engine" >/dev/null && timeout 20 "$engine" info >/dev/null 2>&1; then
      echo "$engine"
      return
    fi
  done
  return 1
}

# What builds and holds images. Podman's are buildah's.
image_engine() { if [ "$(container_engine || true)" = docker ]; then echo docker; else echo buildah; fi; }

# CLUSTER as asked for, or what this machine can do.
chosen_cluster() {
  case ${CLUSTER:-} in
    kind | bare) echo "$CLUSTER" ;;
    '') if command -v kind >/dev/null && container_engine >/dev/null; then echo kind; else echo bare; fi ;;
    *) die "CLUSTER=$CLUSTER: it is \"kind\" or \"bare\"" ;;
  esac
}

may_be_root() { [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }
need_root() {
  may_be_root ||
    die "CLUSTER=bare needs root (a kubelet, mounts, network namespaces). Run it as root, allow sudo without a password, or use CLUSTER=kind"
}

# Runs this script again as root, with what it needs of the environment. The programs are looked for and built by the
# person who called, so that root builds nothing twice.
as_root() {
  [ "$(id -u)" -ne 0 ] || return 0
  need_root
  exec sudo -n env CLUSTER=bare PATH="$PATH" HOME="$HOME" ${XDG_CACHE_HOME:+XDG_CACHE_HOME="$XDG_CACHE_HOME"} \
    ${SIGNALBOX_PROGRAMS_DIR:+SIGNALBOX_PROGRAMS_DIR="$SIGNALBOX_PROGRAMS_DIR"} "${BASH_SOURCE[-1]}" "$@"
}

# Per-user cache; made by the person who called even when root fills it.
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/signalbox
own() { if [ -n "${SUDO_UID:-}" ]; then chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$@"; fi; }

# packages PROGRAM=PACKAGE...: installs the Debian packages of the programs that are missing.
packages() {
  local pair missing=() programs=()
  for pair in "$@"; do
    # A name with a slash is a file; everything else a command, also in the sbin directories that a user's PATH lacks.
    case $pair in
      /*) [ -e "${pair%%=*}" ] && continue ;;
      *) PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "${pair%%=*}" >/dev/null && continue ;;
    esac
    programs+=("${pair%%=*}")
    missing+=("${pair#*=}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "missing: ${programs[*]}. There is no apt-get here: install them (Debian's packages: ${missing[*]})"
  [ "$(id -u)" -eq 0 ] || die "missing: ${programs[*]}. As root: apt-get install ${missing[*]}"
  say "installing ${missing[*]} ..."
  # A policy-rc.d that says no keeps containerd's own service from being started: the node runs its own.
  local policy=/usr/sbin/policy-rc.d log made=
  if [ ! -e $policy ]; then
    made=yes
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
  fi
  log=$(mktemp)
  (
    trap '[ -z "$made" ] || rm -f "$policy"' EXIT
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 update && apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}"
  ) >"$log" 2>&1 8>&- 9>&- || {
    tail -n 15 "$log" >&2
    die "apt-get install ${missing[*]} failed; all of it is in $log"
  }
  rm -f "$log"
}

# tool NAME: a program of this directory's `programs`, e.g. kubectl.
tool() { echo "$("$here/programs" "$1")/$1"; }
