// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-ioband: table lines, messages and status.
 *
 * Makes and ends domains, devices and groups. Knows text, never sees a bio.
 */
#include <linux/blkdev.h>
#include <linux/ctype.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "dm-ioband.h"

static LIST_HEAD(ioband_domains);
static DEFINE_MUTEX(ioband_mutex);

/*
 * A message may come, and a table may be loaded, while a device is suspended
 * that memory would have to be written to: allocate without I/O.
 */
static unsigned int ioband_lock(void)
{
	mutex_lock(&ioband_mutex);
	return memalloc_noio_save();
}

static void ioband_unlock(unsigned int noio)
{
	memalloc_noio_restore(noio);
	mutex_unlock(&ioband_mutex);
}

/**
 * struct ioband_error - what was wrong with a line or a message
 * @text: for the kernel log: what was wrong and what is allowed
 */
struct ioband_error {
	char text[192];
};

static __printf(3, 4) int fail(struct ioband_error *e, int err,
			       const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vscnprintf(e->text, sizeof(e->text), fmt, args);
	va_end(args);
	return err;
}

/* A decimal number without sign or blanks. */
static int parse_number(const char *word, const char *what, u32 min, u32 max,
			u32 *value, struct ioband_error *e)
{
	size_t digits = strspn(word, "0123456789");
	u64 n;

	if (!digits || word[digits])
		return fail(e, -EINVAL,
			    "%s is \"%.32s\", must be a decimal number from %u to %u",
			    what, word, min, max);
	if (kstrtou64(word, 10, &n) || n < min || n > max)
		return fail(e, -ERANGE, "%s is %.32s, must be from %u to %u",
			    what, word, min, max);
	*value = n;
	return 0;
}

static int parse_depth(const char *word, const char *what, u32 *value,
		       struct ioband_error *e)
{
	return parse_number(word, what, 0, IOBAND_DEPTH_MAX, value, e);
}

static int parse_policy(const char *word, const struct ioband_policy **policy,
			struct ioband_error *e)
{
	const struct ioband_policy *p;
	char names[96] = "default";
	size_t len = strlen(names);

	*policy = ioband_policy_find(word);
	if (*policy)
		return 0;
	for (p = ioband_policy_next(NULL); p; p = ioband_policy_next(p))
		len += scnprintf(names + len, sizeof(names) - len, ", %s",
				 p->name);
	return fail(e, -EINVAL, "policy \"%.32s\" is unknown, allowed are: %s",
		    word, names);
}

static int parse_type(const char *word, struct ioband_error *e)
{
	if (strcmp(word, "none"))
		return fail(e, -EINVAL,
			    "type \"%.32s\" is unknown, allowed is: none", word);
	return 0;
}

static int parse_name(const char *word, struct ioband_error *e)
{
	size_t len = strlen(word), i;

	if (!len || len > IOBAND_NAME_MAX)
		return fail(e, -EINVAL,
			    "domain name has %zu characters, must have 1 to %d",
			    len, IOBAND_NAME_MAX);
	/* The name must come out of "dmsetup table" as one word, unquoted. */
	for (i = 0; i < len; i++)
		if (!isascii(word[i]) || !isgraph(word[i]) || word[i] == '\\')
			return fail(e, -EINVAL,
				    "domain name must be printable ASCII without blank or backslash");
	return 0;
}

/* The policy's parameters of a group, separated by colons. Changes @text. */
static int parse_params(char *text, const struct ioband_policy *policy,
			u32 *params, struct ioband_error *e)
{
	unsigned int i;
	int r;

	for (i = 0; i < policy->nr_params; i++) {
		const struct ioband_param *p = &policy->params[i];
		char *word = strsep(&text, ":");

		if (!word)
			return fail(e, -EINVAL,
				    "policy %s takes %u parameter(s) a group, %s is missing",
				    policy->name, policy->nr_params, p->name);
		r = parse_number(word, p->name, p->min, p->max, &params[i], e);
		if (r)
			return r;
	}
	if (text)
		return fail(e, -EINVAL,
			    "\"%.32s\" is too much: policy %s takes %u parameter(s) a group",
			    text, policy->name, policy->nr_params);
	return 0;
}

/* <group> of the table line: [<id>]:<param>[:<param>]. Changes @text. */
static int parse_group(char *text, const struct ioband_policy *policy,
		       u32 *params, struct ioband_error *e)
{
	char *id = strsep(&text, ":");

	if (!text)
		return fail(e, -EINVAL,
			    "group \"%.32s\" must be written [<id>]:<parameters>",
			    id);
	if (*id)
		return fail(e, -EINVAL,
			    "group id \"%.32s\": type none has the default group only",
			    id);
	return parse_params(text, policy, params, e);
}

/*
 * Domains
 */

static u32 device_nr_requests(const struct ioband_device *dev)
{
	struct request_queue *q = bdev_get_queue(dev->dev->bdev);

	return queue_is_mq(q) ? q->nr_requests : IOBAND_LIMIT_DEFAULT;
}

/* The limit in force: what is set, or what the lower devices take. */
static u32 domain_limit(const struct ioband_domain *dom,
			const struct ioband_settings *set)
{
	struct ioband_device *dev;
	u32 limit = set->io_limit;

	if (!limit) {
		list_for_each_entry(dev, &dom->devices, list)
			limit = max(limit, device_nr_requests(dev));
		/* A threshold that is set is a wish to go as deep. */
		limit = max3(limit, set->io_throttle, 1U);
	}
	return limit;
}

/* Put settings in force; they are valid. */
static void domain_set(struct ioband_domain *dom,
		       const struct ioband_settings *set)
{
	u32 limit = domain_limit(dom, set);
	u32 depth = set->io_throttle ?: min(IOBAND_THROTTLE_DEFAULT, limit);
	unsigned long flags;

	lockdep_assert_held(&ioband_mutex);

	spin_lock_irqsave(&dom->lock, flags);
	dom->set = *set;
	WRITE_ONCE(dom->limit, limit);
	WRITE_ONCE(dom->depth, depth);
	ioband_sched_set_depth(&dom->sched, depth);
	WRITE_ONCE(dom->sched.policy, set->policy);
	dom->sched.token_base = set->token_base;
	spin_unlock_irqrestore(&dom->lock, flags);
	ioband_domain_wake(dom);
}

static int check_settings(const struct ioband_settings *set,
			  struct ioband_error *e)
{
	if (set->io_limit && set->io_throttle > set->io_limit)
		return fail(e, -EINVAL,
			    "io_throttle %u is above io_limit %u: must be from 0 to io_limit",
			    set->io_throttle, set->io_limit);
	return 0;
}

/* Is there a device in the domain that @dev's table doesn't replace? */
static bool has_other_devices(const struct ioband_device *dev)
{
	struct mapped_device *md = dm_table_get_md(dev->ti->table);
	struct ioband_device *d;

	list_for_each_entry(d, &dev->domain->devices, list)
		if (d != dev && (d->ti->table == dev->ti->table ||
				 dm_table_get_md(d->ti->table) != md))
			return true;
	return false;
}

static int merge_number(const char *what, const char *domain, u32 now,
			bool fixed, u32 *wanted, struct ioband_error *e)
{
	if (!*wanted)
		*wanted = now;
	if (fixed && *wanted != now)
		return fail(e, -EINVAL,
			    "%s %u differs from %u of the other devices in domain %s: give 0 or %u",
			    what, *wanted, now, domain, now);
	return 0;
}

/* What the domain's settings are once @dev has joined with its wishes. */
static int merge_settings(const struct ioband_device *dev,
			  struct ioband_settings *set, struct ioband_error *e)
{
	const struct ioband_domain *dom = dev->domain;
	bool fixed = has_other_devices(dev);
	int r;

	lockdep_assert_held(&ioband_mutex);

	*set = dev->set;
	if (fixed && set->policy != dom->set.policy)
		return fail(e, -EINVAL,
			    "policy %s differs from %s of the other devices in domain %s",
			    set->policy->name, dom->set.policy->name,
			    dom->name);
	r = merge_number("io_throttle", dom->name, dom->set.io_throttle, fixed,
			 &set->io_throttle, e);
	if (!r)
		r = merge_number("io_limit", dom->name, dom->set.io_limit,
				 fixed, &set->io_limit, e);
	if (!r)
		r = merge_number("token_base", dom->name, dom->set.token_base,
				 fixed, &set->token_base, e);
	return r ?: check_settings(set, e);
}

/**
 * ioband_apply - put a device's settings in force before it goes live
 * @dev: the device
 *
 * What ctr checked may have changed since: the table may be live much later.
 *
 * Context: process; takes ioband_mutex.
 * Return: 0, -EINVAL if the domain's other devices have other settings.
 */
int ioband_apply(struct ioband_device *dev)
{
	unsigned int noio = ioband_lock();
	struct ioband_settings set;
	struct ioband_error e;
	int r;

	r = merge_settings(dev, &set, &e);
	if (r)
		DMERR("%s: resume: %s", dm_table_device_name(dev->ti->table),
		      e.text);
	else
		domain_set(dev->domain, &set);
	/* Applied once: later changes by message outlast a suspend. */
	if (!r)
		dev->set = (struct ioband_settings){ .policy = set.policy };
	ioband_unlock(noio);
	return r;
}

/* Find or make a domain and join it. */
static int domain_join(struct ioband_device *dev, const char *name,
		       struct ioband_error *e)
{
	struct ioband_settings set;
	struct ioband_domain *dom;
	int r;

	lockdep_assert_held(&ioband_mutex);

	list_for_each_entry(dom, &ioband_domains, list) {
		if (strcmp(dom->name, name))
			continue;
		dev->domain = dom;
		r = merge_settings(dev, &set, e);
		if (r)
			return r;
		list_add_tail(&dev->list, &dom->devices);
		return 0;
	}

	r = check_settings(&dev->set, e);
	if (r)
		return r;
	dom = kzalloc(sizeof(*dom), GFP_KERNEL);
	if (!dom)
		return fail(e, -ENOMEM, "no memory for a domain");
	strscpy(dom->name, name, sizeof(dom->name));
	INIT_LIST_HEAD(&dom->devices);
	ioband_domain_init(dom);
	ioband_sched_init(&dom->sched, dev->set.policy, 1);
	list_add_tail(&dom->list, &ioband_domains);
	list_add_tail(&dev->list, &dom->devices);
	dev->domain = dom;
	domain_set(dom, &dev->set);
	return 0;
}

/* Leave the domain; frees it after the last one. */
static void domain_leave(struct ioband_device *dev)
{
	struct ioband_domain *dom = dev->domain;
	unsigned int noio = ioband_lock();
	bool last;

	list_del(&dev->list);
	last = list_empty(&dom->devices);
	if (last)
		list_del(&dom->list);
	ioband_unlock(noio);
	if (last) {
		ioband_domain_stop(dom);
		kfree(dom);
	}
}

/*
 * Groups
 */

static struct ioband_group *group_alloc(const struct ioband_policy *policy,
					const u32 *params)
{
	struct ioband_group *g = kzalloc(sizeof(*g), GFP_KERNEL);

	if (!g)
		return NULL;
	g->counts = alloc_percpu(struct ioband_counts);
	if (!g->counts) {
		kfree(g);
		return NULL;
	}
	memcpy(g->params, params, sizeof(g->params));
	return g;
}

static void group_free(struct ioband_group *g)
{
	free_percpu(g->counts);
	kfree(g);
}

static void group_counts(const struct ioband_group *g, struct ioband_counts *sum)
{
	int cpu, dir;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct ioband_counts *c = per_cpu_ptr(g->counts, cpu);

		for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
			sum->ios[dir] += READ_ONCE(c->ios[dir]);
			sum->held[dir] += READ_ONCE(c->held[dir]);
			sum->sectors[dir] += READ_ONCE(c->sectors[dir]);
		}
	}
}

static void group_set_params(struct ioband_domain *dom, struct ioband_group *g,
			     const u32 *params)
{
	unsigned long flags;

	lockdep_assert_held(&ioband_mutex);

	memcpy(g->params, params, sizeof(g->params));
	spin_lock_irqsave(&dom->lock, flags);
	ioband_share_set_weight(&g->share, dom->set.policy->weight(params));
	spin_unlock_irqrestore(&dom->lock, flags);
	ioband_domain_wake(dom);
}

/*
 * Targets
 */

/* dm logs ti->error after ctr has returned: the text must outlast the call. */
static char *keep_error(const struct ioband_error *e)
{
	static struct ioband_error kept[8];
	static atomic_t next;
	struct ioband_error *k;

	k = &kept[(unsigned int)atomic_inc_return(&next) % ARRAY_SIZE(kept)];
	*k = *e;
	return k->text;
}

/* The words of the table line that don't depend on the domain. */
static int parse_line(struct ioband_device *dev, unsigned int argc, char **argv,
		      u32 *params, struct ioband_error *e)
{
	struct ioband_settings *set = &dev->set;
	unsigned int i;
	int r;

	r = parse_name(argv[1], e) ?:
	    parse_depth(argv[2], "io_throttle", &set->io_throttle, e) ?:
	    parse_depth(argv[3], "io_limit", &set->io_limit, e) ?:
	    parse_type(argv[4], e) ?:
	    parse_policy(argv[5], &set->policy, e) ?:
	    parse_number(argv[6], "token_base", 0, U32_MAX, &set->token_base,
			 e);
	if (r)
		return r;

	for (i = 0; i < set->policy->nr_params; i++)
		params[i] = set->policy->params[i].def;
	for (i = 7; i < argc; i++) {
		if (i > 7)
			return fail(e, -EINVAL,
				    "group \"%.32s\": the default group is given twice",
				    argv[i]);
		r = parse_group(argv[i], set->policy, params, e);
		if (r)
			return r;
	}
	return 0;
}

static const char ioband_words[] =
	"needs <device> <domain> <io_throttle> <io_limit> <type> <policy> <token_base> [<group>...]";

/**
 * ioband_ctr - make a target
 * @ti: target
 * @argc: number of words
 * @argv: <device> <domain> <io_throttle> <io_limit> <type> <policy>
 *	<token_base> [<group>...]
 *
 * device	lower block device, path or <major>:<minor>
 * domain	name, 1-31 characters
 * io_throttle	I/Os in flight at which holding starts, 0 automatic
 * io_limit	most I/Os in flight, 0 automatic, else >= io_throttle
 * type		none
 * policy	weight; default is the same
 * token_base	burst in tokens, 0 the policy's own
 * group	:<weight>, 1-32767, the default group's weight
 *
 * A table may be loaded long before it is live: nothing live changes here.
 *
 * Context: process, sleeps.
 * Return: 0 or a negative errno, with ti->error set.
 */
int ioband_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	u32 params[IOBAND_MAX_PARAMS] = {};
	struct ioband_device *dev;
	struct ioband_error e;
	unsigned int noio;
	int r;

	if (argc < 7) {
		ti->error = (char *)ioband_words;
		return -EINVAL;
	}
	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev) {
		ti->error = "no memory for a device";
		return -ENOMEM;
	}
	dev->ti = ti;
	dev->straight = true;
	INIT_LIST_HEAD(&dev->groups);

	r = parse_line(dev, argc, argv, params, &e);
	if (r)
		goto free_dev;
	dev->fallback = group_alloc(dev->set.policy, params);
	if (!dev->fallback) {
		r = fail(&e, -ENOMEM, "no memory for a group");
		goto free_dev;
	}
	list_add_tail(&dev->fallback->list, &dev->groups);

	r = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &dev->dev);
	if (r) {
		fail(&e, r,
		     "device \"%.64s\" can't be opened: must be a path or <major>:<minor>",
		     argv[0]);
		goto free_group;
	}
	if (ti->len > bdev_nr_sectors(dev->dev->bdev)) {
		r = fail(&e, -EINVAL,
			 "device \"%.64s\" has %llu sectors, the target needs %llu",
			 argv[0],
			 (unsigned long long)bdev_nr_sectors(dev->dev->bdev),
			 (unsigned long long)ti->len);
		goto put_device;
	}
	if (bdev_is_zoned(dev->dev->bdev)) {
		r = fail(&e, -EINVAL,
			 "device \"%.64s\" is zoned: its writes may not be put in another order",
			 argv[0]);
		goto put_device;
	}

	noio = ioband_lock();
	r = domain_join(dev, argv[1], &e);
	ioband_unlock(noio);
	if (r)
		goto put_device;
	ioband_share_init(&dev->fallback->share, &dev->domain->sched,
			  dev->set.policy->weight(params));

	ti->private = dev;
	ti->per_io_data_size = sizeof(struct ioband_io);
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_secure_erase_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->accounts_remapped_io = true;
	ti->limit_swap_bios = true;
	return 0;

put_device:
	dm_put_device(ti, dev->dev);
free_group:
	group_free(dev->fallback);
free_dev:
	kfree(dev);
	ti->error = keep_error(&e);
	return r;
}

/**
 * ioband_dtr - end a target
 * @ti: target; no I/O of it is left
 *
 * Context: process, sleeps.
 */
void ioband_dtr(struct dm_target *ti)
{
	struct ioband_device *dev = ti->private;
	struct ioband_group *g, *next;

	domain_leave(dev);
	list_for_each_entry_safe(g, next, &dev->groups, list)
		group_free(g);
	dm_put_device(ti, dev->dev);
	kfree(dev);
}

/*
 * Status
 */

/* -1, then reads, held reads, read sectors, and the same of writes. */
static ssize_t emit_counts(const struct ioband_group *g, char *result,
			   unsigned int maxlen, ssize_t sz)
{
	struct ioband_counts c;
	int dir;

	group_counts(g, &c);
	DMEMIT(" -1");
	for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
		DMEMIT(" %llu %llu %llu", c.ios[dir] - g->base.ios[dir],
		       c.held[dir] - g->base.held[dir],
		       c.sectors[dir] - g->base.sectors[dir]);
	return sz;
}

static ssize_t emit_params(const struct ioband_policy *policy,
			   const struct ioband_group *g, char *result,
			   unsigned int maxlen, ssize_t sz)
{
	unsigned int i;

	for (i = 0; i < policy->nr_params; i++)
		DMEMIT(":%u", g->params[i]);
	return sz;
}

/**
 * ioband_status - dm's status callback
 * @ti: target
 * @type: what to print
 * @flags: not used
 * @result: buffer
 * @maxlen: its size
 *
 * Status: <domain> (<id> <reads> <reads held> <read sectors> <writes>
 * <writes held> <write sectors>) for each group.
 *
 * Table: the line that gives the present state when it is loaded again.
 *
 * Context: process; takes ioband_mutex.
 */
void ioband_status(struct dm_target *ti, status_type_t type,
		   unsigned int flags, char *result, unsigned int maxlen)
{
	struct ioband_device *dev = ti->private;
	struct ioband_domain *dom = dev->domain;
	const struct ioband_settings *set = &dom->set;
	unsigned int noio = ioband_lock();
	struct ioband_group *g;
	ssize_t sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		DMEMIT("%s", dom->name);
		list_for_each_entry(g, &dev->groups, list)
			sz = emit_counts(g, result, maxlen, sz);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %s %u %u none %s %u ", dev->dev->name, dom->name,
		       set->io_throttle, set->io_limit, set->policy->name,
		       set->token_base);
		list_for_each_entry(g, &dev->groups, list)
			sz = emit_params(set->policy, g, result, maxlen, sz);
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",device=%s,domain=%s,io_throttle=%u,io_limit=%u",
		       dev->dev->name, dom->name, set->io_throttle,
		       set->io_limit);
		DMEMIT(",type=none,policy=%s,token_base=%u", set->policy->name,
		       set->token_base);
		list_for_each_entry(g, &dev->groups, list) {
			DMEMIT(",group=");
			sz = emit_params(set->policy, g, result, maxlen, sz);
		}
		DMEMIT(";");
		break;
	}
	ioband_unlock(noio);
}

/*
 * Messages. Each is parsed and checked whole before anything changes.
 */

static int message_weight(struct ioband_device *dev, char **argv,
			  struct ioband_error *e)
{
	const struct ioband_policy *policy = dev->domain->set.policy;
	u32 params[IOBAND_MAX_PARAMS] = {};
	char *text = argv[1];
	char *id = NULL;
	int r;

	if (strcmp(policy->params[0].name, "weight"))
		return fail(e, -EINVAL, "policy %s has no weights",
			    policy->name);
	if (strchr(text, ':'))
		id = strsep(&text, ":");
	if (id && !*id)
		return fail(e, -EINVAL,
			    "the group's id is empty: write weight [<id>:]<weight>");
	r = parse_params(text, policy, params, e);
	if (r)
		return r;
	if (id && strcmp(id, "default") && strcmp(id, "-1"))
		return fail(e, -ENOENT,
			    "no group \"%.32s\": type none has the default group only",
			    id);
	group_set_params(dev->domain, dev->fallback, params);
	return 0;
}

static int change_settings(struct ioband_device *dev,
			   const struct ioband_settings *set,
			   struct ioband_error *e)
{
	int r = check_settings(set, e);

	if (!r)
		domain_set(dev->domain, set);
	return r;
}

static int message_io_throttle(struct ioband_device *dev, char **argv,
			       struct ioband_error *e)
{
	struct ioband_settings set = dev->domain->set;

	return parse_depth(argv[1], argv[0], &set.io_throttle, e) ?:
	       change_settings(dev, &set, e);
}

static int message_io_limit(struct ioband_device *dev, char **argv,
			    struct ioband_error *e)
{
	struct ioband_settings set = dev->domain->set;

	return parse_depth(argv[1], argv[0], &set.io_limit, e) ?:
	       change_settings(dev, &set, e);
}

static int message_token(struct ioband_device *dev, char **argv,
			 struct ioband_error *e)
{
	struct ioband_settings set = dev->domain->set;

	return parse_number(argv[1], argv[0], 0, U32_MAX, &set.token_base, e) ?:
	       change_settings(dev, &set, e);
}

static int message_carryover(struct ioband_device *dev, char **argv,
			     struct ioband_error *e)
{
	struct ioband_domain *dom = dev->domain;
	unsigned long flags;
	u32 rounds;
	int r;

	r = parse_number(argv[1], argv[0], 0, U32_MAX, &rounds, e);
	if (r)
		return r;
	spin_lock_irqsave(&dom->lock, flags);
	dom->sched.carryover = rounds;
	spin_unlock_irqrestore(&dom->lock, flags);
	return 0;
}

static int message_reset(struct ioband_device *dev, char **argv,
			 struct ioband_error *e)
{
	struct ioband_group *g;

	list_for_each_entry(g, &dev->groups, list)
		group_counts(g, &g->base);
	return 0;
}

/* The words that follow the first are there for the error. */
static const struct ioband_message {
	const char *word;
	const char *args;
	unsigned int argc;
	int (*run)(struct ioband_device *dev, char **argv,
		   struct ioband_error *e);
} ioband_messages[] = {
	{ "weight",	 " [<id>:]<weight>",  2, message_weight },
	{ "io_throttle", " <number>",	      2, message_io_throttle },
	{ "io_limit",	 " <number>",	      2, message_io_limit },
	{ "token",	 " <number>",	      2, message_token },
	{ "carryover",	 " <number>",	      2, message_carryover },
	{ "reset",	 "",		      1, message_reset },
};

static int unknown_message(const char *word, struct ioband_error *e)
{
	char words[96] = "";
	size_t len = 0, i;

	for (i = 0; i < ARRAY_SIZE(ioband_messages); i++)
		len += scnprintf(words + len, sizeof(words) - len, "%s%s",
				 i ? ", " : "", ioband_messages[i].word);
	return fail(e, -EINVAL, "message \"%.32s\" is unknown, allowed are: %s",
		    word, words);
}

/**
 * ioband_message - dm's message callback
 * @ti: target
 * @argc: number of words
 * @argv: the words
 * @result: not used
 * @maxlen: not used
 *
 * Context: process; takes ioband_mutex.
 * Return: 0, or a negative errno with a line in the kernel log.
 */
int ioband_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen)
{
	struct ioband_device *dev = ti->private;
	const struct ioband_message *m = NULL;
	struct ioband_error e;
	unsigned int noio;
	size_t i;
	int r;

	for (i = 0; argc && i < ARRAY_SIZE(ioband_messages); i++)
		if (!strcmp(argv[0], ioband_messages[i].word))
			m = &ioband_messages[i];
	if (!m) {
		r = unknown_message(argc ? argv[0] : "", &e);
	} else if (argc != m->argc) {
		r = fail(&e, -EINVAL, "%u words, must be: %s%s", argc, m->word,
			 m->args);
	} else {
		noio = ioband_lock();
		r = m->run(dev, argv, &e);
		ioband_unlock(noio);
	}
	if (r)
		DMERR("%s: message refused: %s",
		      dm_table_device_name(ti->table), e.text);
	return r;
}
