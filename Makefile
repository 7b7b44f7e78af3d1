# Thin names for what CMake, CTest and the tools do. The program: build/release/lazytrain.
.DEFAULT_GOAL := release
.PHONY: release dev tsan test check format demo demo-smollm2 accept install clean

JOBS := $(shell nproc)
PREFIX ?= /usr/local

release dev tsan: ; @tools/build $@

# Everything a change must pass within ten minutes. Ends with ctest's summary.
test:
	@tools/install-deps test
	@tools/build release
	@ctest --test-dir build/release --output-on-failure --no-tests=error --progress -j $(JOBS)

check:
	@tools/install-deps test
	@tools/check_layers
	@tools/check_style
	@tools/check_format

format: ; @tools/check_format --fix

demo: ; @tools/demo
demo-smollm2: ; @tools/demo smollm2

# The gates of the issues, one script each: make accept ONLY="train-golden placement-bits"
accept:
	@tools/install-deps build peers
	@tools/build release
	@tests/acceptance/run $(ONLY)

install: release
	@cmake --install build/release --prefix $(PREFIX)

clean: ; @rm -rf build out
