/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dm-ioband: share a disk by weight.
 *
 * Objects
 *
 *   domain   whatever shares one disk's bandwidth; named in the table line
 *     |	found under ioband_mutex, freed with its last device
 *     +- device   one dm target over one lower device
 *	    |	made by ctr, freed by dtr
 *	    +- group   who gets a share; scheduled in the domain
 *		 |	made and freed with its device
 *		 +- io   one bio: the target's part of dm's per-bio data
 *
 * The way of an I/O
 *
 *   map() --- room, nothing held ------------------------> lower device
 *     |	(no lock; one atomic: ioband_domain.in_flight)    |
 *     +-- else: ioband_hold() -> ioband_peek() says it ---->|
 *		      |			is its turn	       |
 *		      v					       v
 *		group's queue --- worker: ioband_peek(), ---> end_io()
 *		      ^		  ioband_take(), a batch	|
 *		      |			    ^			|
 *		      |			    +--- wake, timer ---+
 *
 * dm-ioband.c is that picture, dm-ioband-policy.c decides the order (its head
 * explains the algorithm), dm-ioband-ctl.c reads and writes text. Who owns a
 * held I/O: its group's queue; whoever takes it off under the lock sends it.
 *
 * Locks, outermost first
 *
 *   ioband_mutex	 the list of domains; a domain's devices and settings;
 *			 a device's groups; one message at a time. Process
 *			 context, allocates without I/O (see ioband_lock()).
 *   ioband_domain.lock	 the core's state (sched, every share, held I/O) and
 *			 what the domain's comments say. Taken in hard interrupt
 *			 by end_io, so with interrupts off everywhere. Nothing
 *			 else is taken inside it.
 *
 * Without a lock: in_flight is atomic. "contended" may be read at any time; it
 * is set before in_flight is read by whoever holds I/O, and end_io reads it
 * after it lowered in_flight, both with full barriers, so one of the two sees
 * the other and no wakeup is lost. Counters are per CPU and only ever grow.
 */
#ifndef DM_IOBAND_H
#define DM_IOBAND_H

#include <linux/atomic.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "dm-ioband-policy.h"

#define DM_MSG_PREFIX "ioband"

#define IOBAND_NAME_MAX		31
/* Enough for any device; keeps sums of in-flight I/O far from overflow. */
#define IOBAND_DEPTH_MAX	1048576U
/* The threshold where the table line says 0. */
#define IOBAND_THROTTLE_DEFAULT	4U
/* nr_requests of a lower device that has no request queue. */
#define IOBAND_LIMIT_DEFAULT	128U

/**
 * struct ioband_settings - what the table line and messages set for a domain
 * @policy: how I/O is charged
 * @io_throttle: I/Os in flight at which holding starts, 0 automatic
 * @io_limit: most I/Os in flight, 0 automatic
 * @token_base: burst in tokens, 0 the policy's own
 */
struct ioband_settings {
	const struct ioband_policy *policy;
	u32 io_throttle;
	u32 io_limit;
	u32 token_base;
};

/**
 * struct ioband_domain - devices that share one disk's bandwidth
 * @contended: I/O may be held: every I/O takes the lock
 * @depth: I/Os in flight at which holding starts
 * @limit: most I/Os in flight
 * @in_flight: I/Os in flight at the lower devices
 * @lock: see the locks above; covers the members down to @timer
 * @sched: the core's state
 * @epoch: how often @contended was set
 * @kicked: @work is queued or running and will look at everything
 * @work: sends held I/O
 * @timer: queues @work at the time that the core named
 * @list: place in the list of domains; this and the rest under ioband_mutex
 * @devices: the domain's devices, live or not
 * @set: settings
 * @name: name
 */
struct ioband_domain {
	bool contended;
	u32 depth;
	u32 limit;

	atomic_t in_flight ____cacheline_aligned_in_smp;

	/* Taken in hard interrupt by end_io. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct ioband_sched sched;
	u32 epoch;
	bool kicked;
	struct work_struct work;
	struct hrtimer timer;

	struct list_head list;
	struct list_head devices;
	struct ioband_settings set;
	char name[IOBAND_NAME_MAX + 1];
};

/**
 * struct ioband_counts - a group's statistics on one CPU; they only grow
 * @ios: I/Os sent on, by direction
 * @held: of these, I/Os that were held
 * @sectors: 512-byte sectors of @ios
 * @tokens: cost of the I/O that went without asking the core
 */
struct ioband_counts {
	u64 ios[IOBAND_NR_DIRS];
	u64 held[IOBAND_NR_DIRS];
	u64 sectors[IOBAND_NR_DIRS];
	u64 tokens;
};

/**
 * struct ioband_group - who gets a share
 * @share: scheduling state; ioband_domain.lock
 * @epoch: ioband_domain.epoch when @charged was last brought up to date
 * @charged: of ioband_counts.tokens, what the core was told of
 * @counts: statistics
 * @base: statistics at the last reset; ioband_mutex
 * @params: the policy's parameters; ioband_mutex
 * @list: place in ioband_device.groups; ioband_mutex
 */
struct ioband_group {
	struct ioband_share share;
	u32 epoch;
	u64 charged;
	struct ioband_counts __percpu *counts;
	struct ioband_counts base;
	u32 params[IOBAND_MAX_PARAMS];
	struct list_head list;
};

/**
 * struct ioband_device - one target
 * @ti: the target
 * @dev: lower device
 * @domain: domain
 * @fallback: the default group
 * @straight: nothing is held, for suspend; ioband_domain.lock
 * @set: settings that the table line asks for; applied at resume
 * @list: place in ioband_domain.devices; ioband_mutex
 * @groups: all groups, the default group first; ioband_mutex
 */
struct ioband_device {
	struct dm_target *ti;
	struct dm_dev *dev;
	struct ioband_domain *domain;
	struct ioband_group *fallback;
	bool straight;
	struct ioband_settings set;
	struct list_head list;
	struct list_head groups;
};

/**
 * struct ioband_io - one bio
 * @req: the core's view of it; req.ios is 0 while it isn't in flight
 * @group: who pays
 * @sectors: data, in 512-byte sectors
 */
struct ioband_io {
	struct ioband_req req;
	struct ioband_group *group;
	u32 sectors;
};

/* dm-ioband.c: the data path */

void ioband_domain_init(struct ioband_domain *dom);
void ioband_domain_stop(struct ioband_domain *dom);
void ioband_domain_wake(struct ioband_domain *dom);

/* dm-ioband-ctl.c: table, messages, status */

int ioband_ctr(struct dm_target *ti, unsigned int argc, char **argv);
void ioband_dtr(struct dm_target *ti);
int ioband_apply(struct ioband_device *dev);
int ioband_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen);
void ioband_status(struct dm_target *ti, status_type_t type,
		   unsigned int flags, char *result, unsigned int maxlen);

#endif /* DM_IOBAND_H */
