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
 *   map() --- room, nothing held, no newcomer -----------> lower device
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
 * RCU: map() finds a group by id and counts its I/O in one read-side section. A
 * group that is detached is freed after a grace period, once all I/O that was
 * counted for it has completed.
 *
 * Without a lock: in_flight is atomic. "contended" may be read at any time; it
 * is set before in_flight is read by whoever holds I/O, and end_io reads it
 * after it lowered in_flight, both with full barriers, so one of the two sees
 * the other and no wakeup is lost. "depth", "limit" and "lone" may be a moment
 * old: an I/O too many goes straight. Counters are per CPU and only ever grow.
 */
#ifndef DM_IOBAND_H
#define DM_IOBAND_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/build_bug.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/percpu.h>
#include <linux/rhashtable.h>
#include <linux/spinlock.h>

#include "dm-ioband-policy.h"

#define DM_MSG_PREFIX "ioband"

#define IOBAND_NAME_MAX		31
/* Largest ordinary bio: the least size of a limit's bucket. */
#define IOBAND_LARGEST		(BIO_MAX_VECS << PAGE_SHIFT)
/* Enough for any device; keeps sums of in-flight I/O far from overflow. */
#define IOBAND_DEPTH_MAX	1048576U
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
 * @lone: the only group whose I/O needn't take the lock, NULL for all
 * @in_flight: I/Os in flight at the lower devices
 * @lock: see the locks above; covers the members down to @timer
 * @sched: the core's state
 * @epoch: how often @contended was set
 * @kicked: @work is queued or running and will look at everything
 * @ready: I/O to send whatever the core says, counted in flight
 * @worker: a thread of its own, of real-time priority: a slot that stands idle is
 *	lost, and it may be needed to free memory
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
	const struct ioband_share *lone;

	atomic_t in_flight ____cacheline_aligned_in_smp;

	/* Taken in hard interrupt by end_io. */
	spinlock_t lock ____cacheline_aligned_in_smp;
	struct ioband_sched sched;
	u32 epoch;
	bool kicked;
	struct bio_list ready;
	struct kthread_worker *worker;
	struct kthread_work work;
	struct hrtimer timer;

	struct list_head list;
	struct list_head devices;
	struct ioband_settings set;
	char name[IOBAND_NAME_MAX + 1];
};

/**
 * struct ioband_counts - a group's statistics on one CPU; they only grow
 * @ios: I/Os sent on, by direction
 * @held: I/Os that had to wait, by direction
 * @sectors: 512-byte sectors of @ios
 * @done: I/Os completed, both directions
 */
struct ioband_counts {
	u64 ios[IOBAND_NR_DIRS];
	u64 held[IOBAND_NR_DIRS];
	u64 sectors[IOBAND_NR_DIRS];
	u64 done;
};

/* Waits shorter than 2^i * 64 us; the last takes all that are longer. */
#define IOBAND_WAIT_SLOTS	16
#define IOBAND_WAIT_FIRST_US	64

/**
 * struct ioband_waits - how long a group's I/O waited; ioband_domain.lock
 * @total_ns: sum
 * @max_ns: longest
 * @hist: number of waits by length
 */
struct ioband_waits {
	u64 total_ns;
	u64 max_ns;
	u32 hist[IOBAND_WAIT_SLOTS];
};

/* Limits that are set by key: IOBAND_RBPS to IOBAND_WIOPS. */
#define IOBAND_NR_KEYS		IOBAND_MAX_BW

/**
 * struct ioband_group - who gets a share
 * @share: scheduling state; ioband_domain.lock
 * @always: I/O takes the lock though there is room, for a limit
 * @gone: detached; ioband_domain.lock
 * @epoch: ioband_domain.epoch when the core was last told of what went by
 * @told_ios: of ioband_counts.ios, what the core was told of
 * @told_sectors: of ioband_counts.sectors, likewise
 * @counts: statistics
 * @waits: statistics of waiting
 * @base: statistics at the last reset; this and the rest under ioband_mutex
 * @id: what the device's type says an I/O belongs to; a cgroup's inode number
 * @name: the id as the administrator wrote it, NULL for the default group
 * @hash: place in ioband_device.by_id
 * @list: place in ioband_device.groups, or .detached
 * @rcu: when @gone, the grace period after which nobody finds it any more
 * @parent: the group that it is below
 * @params: the policy's parameters
 * @rates: limits by key, 0 for none
 * @burst_ms: size of the limits' buckets
 */
struct ioband_group {
	struct ioband_share share;
	bool always;
	bool gone;
	u32 epoch;
	u64 told_ios;
	u64 told_sectors;
	struct ioband_counts __percpu *counts;
	struct ioband_waits waits;
	struct ioband_counts base;
	u64 id;
	char *name;
	struct rhash_head hash;
	struct list_head list;
	unsigned long rcu;
	struct ioband_group *parent;
	u32 params[IOBAND_MAX_PARAMS];
	u64 rates[IOBAND_NR_KEYS];
	u32 burst_ms;
};

/* There may be thousands. */
static_assert(sizeof(struct ioband_group) <= 1024);

struct ioband_device;

/**
 * struct ioband_type - how an I/O finds its group
 * @name: the word in the table line
 * @alias: another word for it, or NULL
 * @ids: what an id looks like, for errors; NULL if there are none
 * @tree: a group's parent follows from its id
 * @find: the group of an I/O; NULL for the default group. Under RCU, in the
 *	context of the submitter, after the bio has its lower device
 * @parse: make an id of a word: 0, -EINVAL, -ERANGE, -ENOENT. Sleeps
 */
struct ioband_type {
	const char *name;
	const char *alias;
	const char *ids;
	bool tree;
	struct ioband_group *(*find)(struct ioband_device *dev,
				     struct bio *bio);
	int (*parse)(const char *word, u64 *id);
};

/**
 * struct ioband_device - one target
 * @ti: the target
 * @dev: lower device
 * @domain: domain
 * @type: how an I/O finds its group; written under ioband_mutex
 * @fallback: the default group
 * @by_id: the groups that have an id; read under RCU
 * @straight: nothing is held, for suspend; ioband_domain.lock
 * @applied: @set was put in force; ioband_mutex
 * @set: settings that the table line asks for; applied at resume
 * @list: place in ioband_domain.devices; ioband_mutex
 * @groups: all groups, the default group first; changed under ioband_mutex and
 *	ioband_domain.lock, read under either
 * @detached: groups that wait for their last I/O; ioband_mutex
 */
struct ioband_device {
	struct dm_target *ti;
	struct dm_dev *dev;
	struct ioband_domain *domain;
	const struct ioband_type *type;
	struct ioband_group *fallback;
	struct rhashtable by_id;
	bool straight;
	bool applied;
	struct ioband_settings set;
	struct list_head list;
	struct list_head groups;
	struct list_head detached;
};

/**
 * struct ioband_io - one bio
 * @req: the core's view of it
 * @group: who pays
 * @sent: it was sent on and counted
 * @in_flight: it counts in ioband_domain.in_flight
 */
struct ioband_io {
	struct ioband_req req;
	struct ioband_group *group;
	bool sent;
	bool in_flight;
};

/* dm-ioband.c: the data path */

int ioband_domain_init(struct ioband_domain *dom);
void ioband_domain_stop(struct ioband_domain *dom);
void __ioband_domain_follow(struct ioband_domain *dom);
void __ioband_domain_wake(struct ioband_domain *dom, u64 now_ns);
void __ioband_fold(struct ioband_domain *dom, struct ioband_group *g);
void __ioband_group_release(struct ioband_device *dev, struct ioband_group *g);

/* dm-ioband-group.c: finding a group */

extern const struct rhashtable_params ioband_by_id_params;
const struct ioband_type *ioband_type_find(const char *word);
const struct ioband_type *ioband_type_next(const struct ioband_type *t);
struct ioband_group *ioband_group_by_id(struct ioband_device *dev, u64 id);
struct ioband_group *ioband_group_of(struct ioband_device *dev,
				     struct bio *bio);
struct ioband_group *ioband_group_above(struct ioband_device *dev, u64 id);

/* dm-ioband-ctl.c: table, messages, status */

int ioband_ctr(struct dm_target *ti, unsigned int argc, char **argv);
void ioband_dtr(struct dm_target *ti);
int ioband_apply(struct ioband_device *dev);
int ioband_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen);
void ioband_status(struct dm_target *ti, status_type_t type,
		   unsigned int flags, char *result, unsigned int maxlen);

#endif /* DM_IOBAND_H */
