# Culvert. `make run` opens the app, `make test` proves it, `make bench` measures it.
.PHONY: run test test-all bench bench-tun lint format bindings clean

run: ## install what is missing, build the release, open the app (headless: show the core at work)
	@build/run.sh

test: ## everything, from a fresh clone on a fresh machine
	@build/test.sh

test-all: ## the full matrix: every size, kill and pairing
	@CULVERT_FULL=1 build/test.sh

bench: ## our client against the peers' own clients, in one run
	@build/bench.sh protocols

bench-tun: ## TUN mode against hev-socks5-tunnel and others (root)
	@build/bench.sh tun

lint: ## formatting, clippy, licences
	@build/test.sh lint

format:
	@cargo fmt --all
	@cd ui && npm run --silent format

bindings: ## regenerate the TypeScript types of the local socket
	@cargo run --quiet -p culvert-ipc --bin export-bindings

clean:
	@cargo clean
	@rm -rf ui/dist ui/node_modules artefacts
