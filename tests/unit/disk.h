/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Simulated disks. A disk has no clock and no events of its own: it is told of
 * the time and says when an I/O will be complete.
 */
#ifndef DM_IOBAND_DISK_H
#define DM_IOBAND_DISK_H

#include "rand.h"

#define SECTOR_BYTES		512
#define DISK_MAX_CHANNELS	64
/* I/Os that a rotating disk chooses from; more wait in front of it. */
#define DISK_NCQ		32
/* A channel erases what was written before. */
#define DISK_STALL_NS		3000000ULL
/* A disk that is throttled may do so much again. */
#define DISK_TICK_NS		20000000ULL

/**
 * enum sim_disk_kind - how a disk works
 * @DISK_SERVERS: on so many I/Os at a time, in order of arrival
 * @DISK_ROTATES: on one at a time, out of DISK_NCQ of them that which is nearest
 * @DISK_CHANNELS: each I/O has to go through one of them, by its address
 * @DISK_TICKS: servers, all of them together with so many bytes in each tick; what
 *	is beyond that waits for the next one, as where a quota bounds the disk
 */
enum sim_disk_kind {
	DISK_SERVERS,
	DISK_ROTATES,
	DISK_CHANNELS,
	DISK_TICKS,
	DISK_NR_KINDS,
};

/**
 * struct sim_disk - how a disk behaves
 * @servers: I/Os that it works on at once, or channels
 * @read_ns: time of a read, apart from its size; not of a disk that rotates
 * @write_ns: time of a write, 0 for the same
 * @bytes_per_sec: a server's rate, 0 if size doesn't matter; DISK_TICKS: of all
 * @jitter_pct: times vary by this much to both sides
 * @change_ns: when the speed changes, 0 for never
 * @change_pct: times from then on, in percent
 * @kind: how it works
 * @stall_every: writes, then a channel stands for DISK_STALL_NS; 0 for never
 */
struct sim_disk {
	u32 servers;
	u64 read_ns;
	u64 write_ns;
	u64 bytes_per_sec;
	u32 jitter_pct;
	u64 change_ns;
	u32 change_pct;
	enum sim_disk_kind kind;
	u32 stall_every;
};

/**
 * struct disk_io - an I/O as a disk sees it
 * @next: in the disk's queue
 * @done_ns: when it will be complete, once the disk has begun with it
 * @sectors: data
 * @write: direction
 * @track: where on a disk that rotates, 0 to 999,999
 * @angle_ns: the same, in time of a turn
 */
struct disk_io {
	struct disk_io *next;
	u64 done_ns;
	u32 sectors;
	bool write;
	u32 track;
	u32 angle_ns;
};

/**
 * struct disk - a disk at work
 * @model: how it behaves
 * @rand: for all that is random
 * @head: I/Os that it hasn't begun with
 * @tail: their end
 * @busy: I/Os that it has begun with
 * @track: where the head is
 * @free_ns: when each channel will be free
 * @writes: so far
 * @tick: the tick of which I/O is begun with
 * @left: bytes that it has left
 */
struct disk {
	struct sim_disk model;
	struct sim_rand *rand;
	struct disk_io *head;
	struct disk_io **tail;
	u32 busy;
	u32 track;
	u64 free_ns[DISK_MAX_CHANNELS];
	u64 writes;
	u64 tick;
	u64 left;
};

void disk_init(struct disk *d, const struct sim_disk *model,
	       struct sim_rand *rand);
/* An I/O comes. True if the disk begins with it at once. */
bool disk_submit(struct disk *d, struct disk_io *io, u64 now_ns);
/* An I/O is complete. The one that the disk begins with now, or NULL. */
struct disk_io *disk_complete(struct disk *d, u64 now_ns);

/* Time of a small read if there is no other, on the average. */
u64 disk_read_ns(const struct sim_disk *model);

#endif /* DM_IOBAND_DISK_H */
