# Signalbox. `make demo` and `make test` do all set-up themselves and say what is missing if they cannot.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
STATIC := target/static
# A folder of its own: other flags for the same crates would build everything anew at each change of command.
STATIC_TARGET := target/static-build
PROGRAMS := watcher job-launcher pruner ai-agent-init ai-agent-supervisor probe
TEST_PROGRAMS := etcd kube-apiserver kube-controller-manager kubectl nats-server
CLUSTER_SCRIPTS := $(wildcard e2e/cluster/*)

.PHONY: help
help: ## Show what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: ## A cluster, Signalbox on it, and one Agent to its end
	@e2e/demo/run

.PHONY: demo-down
demo-down: ## Take the demo away: cluster, processes, mounts, links
	@e2e/demo/down

.PHONY: test
test: setup ## Every test that needs no node (a real API server, etcd and NATS are started)
	@export SIGNALBOX_PROGRAMS=$$(e2e/cluster/programs $(TEST_PROGRAMS)); scripts/test

.PHONY: e2e
e2e: images ## Scenarios with real pods on CLUSTER (kind or bare)
	@e2e/scenarios/run

.PHONY: e2e-vendors
e2e-vendors: images ## The vendors' real CLIs: what they print, compared with the recordings, and runs of them on CLUSTER=bare
	@e2e/vendors/run

.PHONY: images
images: static ## Build the container images with docker, else buildah
	@e2e/cluster/images --binaries $(STATIC)

.PHONY: static
static: setup ## Build the programs of the images as static binaries into target/static
	@mkdir -p $(STATIC)
	@RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target $(HOST) --target-dir $(STATIC_TARGET) \
	  $(foreach program,$(PROGRAMS),--bin $(program))
	@for program in $(PROGRAMS); do cmp -s $(STATIC_TARGET)/$(HOST)/release/$$program $(STATIC)/$$program || \
	  install -m 755 $(STATIC_TARGET)/$(HOST)/release/$$program $(STATIC)/$$program; done

.PHONY: cli
cli: setup ## Build kubectl-signalbox, one static binary, into target/static
	@$(MAKE) static PROGRAMS=kubectl-signalbox

.PHONY: check
check: setup ## Format, lints, licences, generated files, manifests, scripts
	@scripts/check

.PHONY: cases
cases: ## The table of the contract's numbered cases and their tests; fails on a case without one
	@scripts/cases

.PHONY: generate
generate: ## Write k8s/crds from the types
	@cargo run -q --locked -p signalbox-types --example crdgen k8s/crds

.PHONY: setup
setup:
	@scripts/setup
