# SPDX-License-Identifier: GPL-2.0-only
#
# make			build dm_ioband.ko for the running kernel (KDIR=... for another)
# make install		install the module and its manual page (as root)
# make demo		two ioband devices share a simulated disk, in a VM
# make bench		against iocost, BFQ and others, in a VM (QUICK=1: some of it)
# make test		unit tests, then the VM tests on both kernels
# make test-unit	the scheduling core in user space
# make test-debug	the VM tests under a kernel that looks for bugs, built first
# make lint		checkpatch, kernel-doc, sparse, W=1, shellcheck, mandoc
# make clean		remove what make has built; make distclean: build/ too

ifneq ($(KERNELRELEASE),)

# With an underscore: a module can't have the name of one of its objects.
# modprobe takes either.
obj-m := dm_ioband.o
dm_ioband-y := dm-ioband.o dm-ioband-group.o dm-ioband-policy.o \
	       dm-ioband-limit.o dm-ioband-depth.o dm-ioband-ctl.o

else

KDIR ?= /lib/modules/$(shell uname -r)/build
PREFIX ?= /usr/local

all: modules

modules:
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

install: modules
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(if $(DESTDIR),INSTALL_MOD_PATH=$(DESTDIR)) modules_install
	$(if $(DESTDIR),,depmod -a)
	install -D -m 644 dm-ioband.4 $(DESTDIR)$(PREFIX)/share/man/man4/dm-ioband.4

demo:
	scripts/demo

bench:
	bench/run $(if $(QUICK),--quick,--smp)

test:
	tests/run

test-unit:
	scripts/setup unit
	$(MAKE) -C tests/unit check

test-debug:
	tests/debug

lint:
	tests/lint

clean:
	rm -f *.o *.ko *.mod *.mod.c .*.cmd modules.order Module.symvers

distclean: clean
	rm -rf build

.PHONY: all modules install demo bench test test-unit test-debug lint clean distclean

endif
