# SPDX-License-Identifier: GPL-2.0-only
#
# make			build dm_ioband.ko for the running kernel (KDIR=... for another)
# make install		install the module (as root)
# make demo		two ioband devices share a simulated disk, in a VM
# make test		unit tests, then the VM tests on both kernels
# make test-unit	the scheduling core in user space
# make lint		checkpatch, kernel-doc, sparse, W=1, shellcheck
# make clean		remove what make has built; make distclean: build/ too

ifneq ($(KERNELRELEASE),)

# With an underscore: a module can't have the name of one of its objects.
# modprobe takes either.
obj-m := dm_ioband.o
dm_ioband-y := dm-ioband.o dm-ioband-group.o dm-ioband-policy.o \
	       dm-ioband-limit.o dm-ioband-depth.o dm-ioband-ctl.o

else

KDIR ?= /lib/modules/$(shell uname -r)/build

all: modules

modules:
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

install: modules
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules_install
	depmod -a

demo:
	scripts/demo

test:
	tests/run

test-unit:
	scripts/setup unit
	$(MAKE) -C tests/unit check

lint:
	tests/lint

clean:
	rm -f *.o *.ko *.mod *.mod.c .*.cmd modules.order Module.symvers

distclean: clean
	rm -rf build

.PHONY: all modules install demo test test-unit lint clean distclean

endif
