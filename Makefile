# SPDX-License-Identifier: GPL-2.0-only
#
# make			build dm_ioband.ko for the running kernel (KDIR=... for another)
# make install		install the module (as root)
# make demo		two ioband devices share a simulated disk, in a VM
# make test		unit tests, then the VM tests on both kernels
# make lint		checkpatch, sparse, W=1, shellcheck

ifneq ($(KERNELRELEASE),)

# The object has an underscore: a module can't contain an object of its own name.
obj-m := dm_ioband.o
dm_ioband-y := dm-ioband.o dm-ioband-policy.o dm-ioband-ctl.o

else

KDIR ?= /lib/modules/$(shell uname -r)/build

all: modules

modules:
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

install: modules
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules_install
	depmod -a

clean:
	rm -rf *.o *.ko *.mod *.mod.c .*.cmd .*.d modules.order Module.symvers .module-common.o .tmp_versions

.PHONY: all modules install clean

endif
