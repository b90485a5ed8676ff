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

#define BURST_MS_DEFAULT	100
#define BURST_MS_MAX		10000

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
	char text[256];
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

/* Say of what the error is. */
static int fail_in(struct ioband_error *e, int err, const char *what,
		   const char *id)
{
	const struct ioband_error inner = *e;

	if (id)
		return fail(e, err, "%s \"%.64s\": %s", what, id, inner.text);
	return fail(e, err, "%s: %s", what, inner.text);
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

static int parse_type(const char *word, const struct ioband_type **type,
		      struct ioband_error *e)
{
	const struct ioband_type *t;
	char names[96] = "";
	size_t len = 0;

	*type = ioband_type_find(word);
	if (*type)
		return 0;
	for (t = ioband_type_next(NULL); t; t = ioband_type_next(t))
		len += scnprintf(names + len, sizeof(names) - len, "%s%s%s%s",
				 len ? ", " : "", t->name,
				 t->alias ? ", " : "", t->alias ?: "");
	return fail(e, -EINVAL, "type \"%.32s\" is unknown, allowed are: %s",
		    word, names);
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

/**
 * struct group_words - what a table line or a message says of a group
 * @id: its id as a word, NULL for the default group
 * @params: the policy's parameters
 * @rates: limits by key, 0 for none
 * @burst_ms: size of the limits' buckets
 * @parent: id of the group above, or NULL
 * @seen: keys that were given, a bit mask
 */
struct group_words {
	char *id;
	u32 params[IOBAND_MAX_PARAMS];
	u64 rates[IOBAND_NR_KEYS];
	u32 burst_ms;
	char *parent;
	u8 seen;
};

/* The keys that aren't limits. */
enum {
	KEY_BURST_MS = IOBAND_NR_KEYS,
	KEY_PARENT,
};

static const char * const ioband_keys[] = {
	[IOBAND_RBPS]	= "rbps",
	[IOBAND_WBPS]	= "wbps",
	[IOBAND_RIOPS]	= "riops",
	[IOBAND_WIOPS]	= "wiops",
	[KEY_BURST_MS]	= "burst_ms",
	[KEY_PARENT]	= "parent",
};

static void default_params(const struct ioband_policy *policy, u32 *params)
{
	unsigned int i;

	for (i = 0; i < policy->nr_params; i++)
		params[i] = policy->params[i].def;
}

static void default_words(const struct ioband_policy *policy,
			  struct group_words *w)
{
	*w = (struct group_words){ .burst_ms = BURST_MS_DEFAULT };
	default_params(policy, w->params);
}

static bool is_default(const char *id)
{
	return !strcmp(id, "default") || !strcmp(id, "-1");
}

/* A limit: a number of at least 1, or max for none. */
static int parse_rate(const char *word, const char *key, u64 *rate,
		      struct ioband_error *e)
{
	size_t digits = strspn(word, "0123456789");
	u64 n;

	if (!strcmp(word, "max")) {
		*rate = 0;
		return 0;
	}
	if (!digits || word[digits])
		return fail(e, -EINVAL,
			    "%s is \"%.32s\", must be a decimal number from 1 to %lld, or max",
			    key, word, S64_MAX);
	if (kstrtou64(word, 10, &n) || !n || n > S64_MAX)
		return fail(e, -ERANGE,
			    "%s is %.32s, must be from 1 to %lld, or max",
			    key, word, S64_MAX);
	*rate = n;
	return 0;
}

/* <key>=<value>; @more is allowed beside the limits. Changes @word. */
static int parse_key(char *word, const char *more, struct group_words *w,
		     struct ioband_error *e)
{
	char *value = word;
	char *key = strsep(&value, "=");
	int i;

	for (i = 0; i < ARRAY_SIZE(ioband_keys); i++)
		if (!strcmp(key, ioband_keys[i]))
			break;
	if (!value || i == ARRAY_SIZE(ioband_keys))
		return fail(e, -EINVAL,
			    "\"%.32s\" is unknown, allowed are: rbps=, wbps=, riops=, wiops=, burst_ms=%s",
			    key, more);
	if (w->seen & BIT(i))
		return fail(e, -EINVAL, "%s is given twice", key);
	w->seen |= BIT(i);
	switch (i) {
	case KEY_BURST_MS:
		return parse_number(value, key, 1, BURST_MS_MAX, &w->burst_ms,
				    e);
	case KEY_PARENT:
		w->parent = value;
		return 0;
	default:
		return parse_rate(value, key, &w->rates[i], e);
	}
}

static int check_params(const struct ioband_policy *policy, const u32 *params,
			struct ioband_error *e)
{
	const char *why = policy->check ? policy->check(params) : NULL;
	char given[96] = "";
	size_t len = 0;
	unsigned int i;

	if (!why)
		return 0;
	for (i = 0; i < policy->nr_params; i++)
		len += scnprintf(given + len, sizeof(given) - len,
				 "%s%s is %u", i ? " and " : "",
				 policy->params[i].name, params[i]);
	return fail(e, -EINVAL, "%s: %s", given, why);
}

/*
 * <param>[:<param>][:<key>=<value>]... Without a parameter, where @optional
 * allows that, they stay as they are in @w. Changes @text.
 */
static int parse_params(char *text, const struct ioband_policy *policy,
			bool optional, struct group_words *w,
			struct ioband_error *e)
{
	unsigned int n = 0;
	char *word;
	int r;

	while ((word = strsep(&text, ":"))) {
		if (strchr(word, '=')) {
			/* Keys come last. */
			do {
				r = parse_key(word, ", parent=", w, e);
				if (r)
					return r;
			} while ((word = strsep(&text, ":")));
			break;
		}
		if (n == policy->nr_params)
			return fail(e, -EINVAL,
				    "\"%.32s\" is too much: policy %s takes %u parameter(s) a group",
				    word, policy->name, policy->nr_params);
		r = parse_number(word, policy->params[n].name,
				 policy->params[n].min, policy->params[n].max,
				 &w->params[n], e);
		if (r)
			return r;
		n++;
	}
	if (n < policy->nr_params && !(optional && !n))
		return fail(e, -EINVAL,
			    "policy %s takes %u parameter(s) a group, %s is missing",
			    policy->name, policy->nr_params,
			    policy->params[n].name);
	return check_params(policy, w->params, e);
}

/* <group> of the table line: [<id>]:<param>[:<param>]... Changes @text. */
static int parse_group(char *text, const struct ioband_policy *policy,
		       struct group_words *w, struct ioband_error *e)
{
	int r;

	default_words(policy, w);
	w->id = strsep(&text, ":");
	if (!text)
		return fail(e, -EINVAL,
			    "group \"%.32s\" must be written [<id>]:<parameters>",
			    w->id);
	if (!*w->id)
		w->id = NULL;
	r = parse_params(text, policy, false, w, e);
	if (r)
		return fail_in(e, r, w->id ? "group" : "default group", w->id);
	return 0;
}

static int parse_id(const struct ioband_type *type, const char *word, u64 *id,
		    struct ioband_error *e)
{
	int r;

	if (!type->ids)
		return fail(e, -EINVAL,
			    "group id \"%.32s\": type %s has the default group only",
			    word, type->name);
	r = type->parse(word, id);
	if (r == -ENOENT)
		return fail(e, r, "no %s \"%.64s\"", type->name, word);
	if (r)
		return fail(e, r, "group id is \"%.64s\", must be %s", word,
			    type->ids);
	return 0;
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
	unsigned long flags;

	lockdep_assert_held(&ioband_mutex);

	spin_lock_irqsave(&dom->lock, flags);
	dom->set = *set;
	WRITE_ONCE(dom->limit, limit);
	if (set->io_throttle)
		ioband_sched_set_depth(&dom->sched, set->io_throttle);
	else
		ioband_sched_find_depth(&dom->sched, limit);
	__ioband_domain_follow(dom);
	if (dom->sched.policy != set->policy)
		ioband_sched_set_policy(&dom->sched, set->policy);
	dom->sched.token_base = set->token_base;
	__ioband_domain_wake(dom, ktime_get_ns());
	spin_unlock_irqrestore(&dom->lock, flags);
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

/* Is there a device in the domain whose table isn't @dev's, old or new? */
static bool has_other_devices(const struct ioband_device *dev)
{
	struct mapped_device *md = dm_table_get_md(dev->ti->table);
	struct ioband_device *d;

	list_for_each_entry(d, &dev->domain->devices, list)
		if (dm_table_get_md(d->ti->table) != md)
			return true;
	return false;
}

static int merge_number(const char *what, const char *message,
			const char *domain, u32 now, bool fixed, u32 *wanted,
			struct ioband_error *e)
{
	if (!*wanted)
		*wanted = now;
	if (fixed && *wanted != now)
		return fail(e, -EINVAL,
			    "%s %u differs from %u of the other devices in domain %s: give 0 or the same, or send one of them the message \"%s %u\"",
			    what, *wanted, now, domain, message, *wanted);
	return 0;
}

static int check_same(const char *what, u32 a, u32 b, struct ioband_error *e)
{
	if (a && b && a != b)
		return fail(e, -EINVAL,
			    "%s is %u and %u in one table and domain", what, b,
			    a);
	return 0;
}

/* What the domain's settings are once @dev has joined with its wishes. */
static int merge_settings(const struct ioband_device *dev,
			  struct ioband_settings *set, struct ioband_error *e)
{
	const struct ioband_domain *dom = dev->domain;
	bool fixed = has_other_devices(dev);
	const struct ioband_device *d;
	int r;

	lockdep_assert_held(&ioband_mutex);

	list_for_each_entry(d, &dom->devices, list) {
		if (d == dev || d->ti->table != dev->ti->table)
			continue;
		r = check_same("io_throttle", dev->set.io_throttle,
			       d->set.io_throttle, e) ?:
		    check_same("io_limit", dev->set.io_limit, d->set.io_limit,
			       e) ?:
		    check_same("token_base", dev->set.token_base,
			       d->set.token_base, e);
		if (!r && dev->set.policy != d->set.policy)
			r = fail(e, -EINVAL,
				 "policies %s and %s in one table and domain",
				 d->set.policy->name, dev->set.policy->name);
		if (r)
			return r;
	}
	*set = dev->set;
	if (fixed && set->policy != dom->set.policy)
		return fail(e, -EINVAL,
			    "policy %s differs from %s of the other devices in domain %s: give the same, or send one of them the message \"policy %s\"",
			    set->policy->name, dom->set.policy->name,
			    dom->name, set->policy->name);
	return merge_number("io_throttle", "io_throttle", dom->name,
			    dom->set.io_throttle, fixed, &set->io_throttle,
			    e) ?:
	       merge_number("io_limit", "io_limit", dom->name,
			    dom->set.io_limit, fixed, &set->io_limit, e) ?:
	       merge_number("token_base", "token", dom->name,
			    dom->set.token_base, fixed, &set->token_base, e) ?:
	       check_settings(set, e);
}

/*
 * An I/O that is held by the lower one of two devices counts as in flight for the
 * upper one: in one domain it would wait for itself.
 */
static int check_stack(const struct ioband_device *dev, const char *word,
		       struct ioband_error *e)
{
	const struct ioband_domain *dom = dev->domain;
	const struct ioband_device *d;

	list_for_each_entry(d, &dom->devices, list)
		if (dm_disk(dm_table_get_md(d->ti->table)) ==
		    dev->dev->bdev->bd_disk)
			return fail(e, -EINVAL,
				    "device \"%.64s\" is in domain %s itself: one above it needs another domain",
				    word, dom->name);
	return 0;
}

/* Find or make a domain and join it. */
static int domain_join(struct ioband_device *dev, const char *word,
		       const char *name, struct ioband_error *e)
{
	struct ioband_settings set;
	struct ioband_domain *dom;
	int r;

	lockdep_assert_held(&ioband_mutex);

	list_for_each_entry(dom, &ioband_domains, list) {
		if (strcmp(dom->name, name))
			continue;
		dev->domain = dom;
		r = check_stack(dev, word, e) ?: merge_settings(dev, &set, e);
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
	r = ioband_domain_init(dom);
	if (r) {
		kfree(dom);
		return fail(e, r, "no thread for a domain");
	}
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

static const char *group_name(const struct ioband_group *g)
{
	return g->name ?: "-1";
}

static void group_free(struct ioband_group *g)
{
	free_percpu(g->counts);
	kfree(g->name);
	kfree(g);
}

static struct ioband_group *group_alloc(const struct group_words *w, u64 id)
{
	struct ioband_group *g = kzalloc(sizeof(*g), GFP_KERNEL);

	if (!g)
		return NULL;
	g->counts = alloc_percpu(struct ioband_counts);
	if (w->id)
		g->name = kstrdup(w->id, GFP_KERNEL);
	if (!g->counts || (w->id && !g->name)) {
		group_free(g);
		return NULL;
	}
	g->id = id;
	memcpy(g->params, w->params, sizeof(g->params));
	memcpy(g->rates, w->rates, sizeof(g->rates));
	g->burst_ms = w->burst_ms;
	return g;
}

static void group_counts(const struct ioband_group *g,
			 struct ioband_counts *sum)
{
	int cpu, dir;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct ioband_counts *c = per_cpu_ptr(g->counts, cpu);

		/* First, so that what is in flight isn't below 0. */
		sum->done += READ_ONCE(c->done);
		for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
			sum->ios[dir] += READ_ONCE(c->ios[dir]);
			sum->held[dir] += READ_ONCE(c->held[dir]);
			sum->sectors[dir] += READ_ONCE(c->sectors[dir]);
		}
	}
}

static u64 group_in_flight(const struct ioband_counts *c)
{
	u64 sent = c->ios[IOBAND_READ] + c->ios[IOBAND_WRITE];

	return sent > c->done ? sent - c->done : 0;
}

/* Put a group's parameters and limits in force. */
static void __group_apply(struct ioband_domain *dom, struct ioband_group *g,
			  u64 now_ns)
{
	struct ioband_claim claim = {};

	lockdep_assert_held(&dom->lock);

	dom->sched.policy->claim(g->params, &claim);
	ioband_share_set_claim(&g->share, &claim, now_ns);
	ioband_share_set_limits(&g->share, g->rates,
				g->burst_ms * (u64)NSEC_PER_MSEC, now_ns);
}

/* Limits and parents say whose I/O takes the lock although there is room. */
static void __device_refresh(struct ioband_device *dev)
{
	struct ioband_group *g;

	lockdep_assert_held(&dev->domain->lock);

	list_for_each_entry(g, &dev->groups, list)
		WRITE_ONCE(g->always, ioband_share_limited(&g->share));
}

static void device_apply(struct ioband_device *dev)
{
	struct ioband_domain *dom = dev->domain;
	u64 now_ns = ktime_get_ns();
	struct ioband_group *g;
	unsigned long flags;

	lockdep_assert_held(&ioband_mutex);

	spin_lock_irqsave(&dom->lock, flags);
	list_for_each_entry(g, &dev->groups, list)
		__group_apply(dom, g, now_ns);
	__device_refresh(dev);
	spin_unlock_irqrestore(&dom->lock, flags);
}

static void group_apply(struct ioband_device *dev, struct ioband_group *g)
{
	struct ioband_domain *dom = dev->domain;
	u64 now_ns = ktime_get_ns();
	unsigned long flags;

	lockdep_assert_held(&ioband_mutex);

	spin_lock_irqsave(&dom->lock, flags);
	/* What went by so far was at the old weight. */
	__ioband_fold(dom, g);
	__group_apply(dom, g, now_ns);
	__device_refresh(dev);
	__ioband_domain_wake(dom, now_ns);
	spin_unlock_irqrestore(&dom->lock, flags);
}

static void group_set_parent(struct ioband_device *dev, struct ioband_group *g,
			     struct ioband_group *parent)
{
	struct ioband_domain *dom = dev->domain;
	u64 now_ns = ktime_get_ns();
	unsigned long flags;

	lockdep_assert_held(&ioband_mutex);

	spin_lock_irqsave(&dom->lock, flags);
	g->parent = parent;
	ioband_share_set_parent(&g->share, parent ? &parent->share : NULL,
				now_ns);
	__device_refresh(dev);
	__ioband_domain_wake(dom, now_ns);
	spin_unlock_irqrestore(&dom->lock, flags);
}

/* Free the detached groups that nobody can find or use any more. */
static void groups_reap(struct ioband_device *dev, bool all)
{
	struct ioband_group *g, *next;
	struct ioband_counts c;

	list_for_each_entry_safe(g, next, &dev->detached, list) {
		group_counts(g, &c);
		if (!all && (!poll_state_synchronize_rcu(g->rcu) ||
			     group_in_flight(&c)))
			continue;
		list_del(&g->list);
		group_free(g);
	}
}

/* The group that a word in a message means. */
static struct ioband_group *group_find(struct ioband_device *dev,
				       const char *word,
				       struct ioband_error *e, int *r)
{
	struct ioband_group *g;
	u64 id;

	if (is_default(word))
		return dev->fallback;
	/* A cgroup that is gone is found by its name, or by its number. */
	list_for_each_entry(g, &dev->groups, list)
		if (g->name && !strcmp(g->name, word))
			return g;
	if (!dev->type->ids) {
		*r = fail(e, -ENOENT,
			  "no group \"%.32s\": type %s has the default group only",
			  word, dev->type->name);
		return NULL;
	}
	if (!word[strspn(word, "0123456789")] && !kstrtou64(word, 10, &id)) {
		g = ioband_group_by_id(dev, id);
		if (g)
			return g;
	}
	*r = parse_id(dev->type, word, &id, e);
	if (*r)
		return NULL;
	g = ioband_group_by_id(dev, id);
	if (!g)
		*r = fail(e, -ENOENT, "no group \"%.64s\" on this device", word);
	return g;
}

/*
 * Add a group to a device that has joined its domain. Its parameters are put in
 * force by group_apply(), or when the device's table goes live.
 */
static int group_add(struct ioband_device *dev, const struct group_words *w,
		     struct ioband_group **added, struct ioband_error *e)
{
	struct ioband_domain *dom = dev->domain;
	u32 max_bytes = queue_max_sectors(bdev_get_queue(dev->dev->bdev)) << 9;
	u32 largest = max_t(u32, IOBAND_LARGEST, max_bytes);
	struct ioband_group *g;
	unsigned long flags;
	u64 id = 0;
	int r;

	lockdep_assert_held(&ioband_mutex);

	if (w->id) {
		if (is_default(w->id))
			return fail(e, -EINVAL,
				    "group id \"%.32s\" is the default group's",
				    w->id);
		r = parse_id(dev->type, w->id, &id, e);
		if (r)
			return r;
		if (ioband_group_by_id(dev, id))
			return fail(e, -EEXIST, "group \"%.64s\" is there already",
				    w->id);
		/* A cgroup made again has another id. */
		list_for_each_entry(g, &dev->groups, list)
			if (g->name && !strcmp(g->name, w->id))
				return fail(e, -EEXIST,
					    "group \"%.64s\" is that of a cgroup that was removed: detach it first",
					    w->id);
	}
	g = group_alloc(w, id);
	if (!g)
		return fail(e, -ENOMEM, "no memory for a group");
	ioband_share_init(&g->share, &dom->sched, largest,
			  DIV_ROUND_UP(largest, max_bytes));
	if (w->id) {
		r = rhashtable_insert_fast(&dev->by_id, &g->hash,
					   ioband_by_id_params);
		if (r) {
			group_free(g);
			return fail(e, r, "no memory for a group");
		}
	}
	spin_lock_irqsave(&dom->lock, flags);
	list_add_tail(&g->list, &dev->groups);
	if (dev->fallback && dev->fallback->share.active)
		ioband_share_activate(&g->share);
	spin_unlock_irqrestore(&dom->lock, flags);
	*added = g;
	return 0;
}

/* A cgroup's group goes below that of the nearest cgroup above it. */
static void group_plant(struct ioband_device *dev, struct ioband_group *added)
{
	struct ioband_group *g, *above;

	if (!dev->type->tree)
		return;
	list_for_each_entry(g, &dev->groups, list) {
		if (!g->name)
			continue;
		above = ioband_group_above(dev, g->id);
		/* NULL, too, for a cgroup that is gone: it stays put. */
		if (g == added || above == added)
			group_set_parent(dev, g, above);
	}
}

static int check_parent(const struct ioband_group *g,
			const struct ioband_group *parent,
			struct ioband_error *e)
{
	const struct ioband_group *p;

	for (p = parent; p; p = p->parent)
		if (p == g)
			return fail(e, -EINVAL,
				    "group %.64s can't be below %.64s, which is the same or below it",
				    group_name(g), group_name(parent));
	return 0;
}

static int parse_parent(struct ioband_device *dev, struct ioband_group *g,
			const char *word, struct ioband_group **parent,
			struct ioband_error *e)
{
	int r = 0;

	if (dev->type->tree)
		return fail(e, -EINVAL,
			    "type %s: the tree of cgroups says which group is the parent",
			    dev->type->name);
	if (!g->name)
		return fail(e, -EINVAL, "the default group can't have a parent");
	*parent = NULL;
	if (!strcmp(word, "none"))
		return 0;
	if (is_default(word))
		return fail(e, -EINVAL,
			    "the default group can't be a parent, use none for the top");
	*parent = group_find(dev, word, e, &r);
	if (r)
		return fail_in(e, r, "parent", NULL);
	return check_parent(g, *parent, e);
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
	if (r) {
		DMERR("%s: resume: %s", dm_table_device_name(dev->ti->table),
		      e.text);
	} else {
		domain_set(dev->domain, &set);
		/* Once: later changes by message outlast a suspend. */
		dev->set = (struct ioband_settings){ .policy = set.policy };
		dev->applied = true;
		device_apply(dev);
	}
	ioband_unlock(noio);
	return r;
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

/*
 * The words of the table line, as far as they don't depend on the domain. The
 * default group comes out first, whether it was named or not.
 */
static int parse_line(struct ioband_device *dev, unsigned int argc, char **argv,
		      struct group_words *words, unsigned int *nr,
		      struct ioband_error *e)
{
	struct ioband_settings *set = &dev->set;
	bool given = false;
	unsigned int i;
	int r;

	r = parse_name(argv[1], e) ?:
	    parse_depth(argv[2], "io_throttle", &set->io_throttle, e) ?:
	    parse_depth(argv[3], "io_limit", &set->io_limit, e) ?:
	    parse_type(argv[4], &dev->type, e) ?:
	    parse_policy(argv[5], &set->policy, e) ?:
	    parse_number(argv[6], "token_base", 0, U32_MAX, &set->token_base,
			 e);
	if (r)
		return r;

	default_words(set->policy, &words[0]);
	*nr = 1;
	for (i = 7; i < argc; i++) {
		struct group_words *w = &words[*nr];

		r = parse_group(argv[i], set->policy, w, e);
		if (r)
			return r;
		if (w->id) {
			++*nr;
			continue;
		}
		if (given)
			return fail(e, -EINVAL,
				    "the default group is given twice");
		given = true;
		words[0] = *w;
	}
	return 0;
}

static int open_device(struct ioband_device *dev, const char *word,
		       struct ioband_error *e)
{
	struct dm_target *ti = dev->ti;
	int r = dm_get_device(ti, word, dm_table_get_mode(ti->table),
			      &dev->dev);

	switch (r) {
	case 0:
		return 0;
	case -EBUSY:
		return fail(e, r,
			    "device \"%.64s\" is in use, as by a mounted file system",
			    word);
	case -ENODEV:
	case -ENOENT:
	case -ENXIO:
	case -ENOTBLK:
		return fail(e, r,
			    "no block device \"%.64s\": must be the path of one, or <major>:<minor>",
			    word);
	case -EACCES:
	case -EROFS:
		return fail(e, r,
			    "device \"%.64s\" is read-only: the ioband device must be made so too",
			    word);
	default:
		return fail(e, r, "device \"%.64s\" can't be opened: error %d",
			    word, -r);
	}
}

static int check_device(struct dm_target *ti, const char *word,
			struct block_device *bdev, struct ioband_error *e)
{
	if (ti->len > bdev_nr_sectors(bdev))
		return fail(e, -EINVAL,
			    "device \"%.64s\" has %llu sectors, the target needs %llu",
			    word, (unsigned long long)bdev_nr_sectors(bdev),
			    (unsigned long long)ti->len);
	if (bdev_is_zoned(bdev))
		return fail(e, -EINVAL,
			    "device \"%.64s\" is zoned: its writes may not be put in another order",
			    word);
	return 0;
}

/* All groups of the table line, then who is whose parent. */
static int add_groups(struct ioband_device *dev,
		      const struct group_words *words, unsigned int nr,
		      struct ioband_error *e)
{
	struct ioband_group *g, *parent;
	unsigned int i;
	int r;

	for (i = 0; i < nr; i++) {
		r = group_add(dev, &words[i], &g, e);
		if (r)
			return r;
		if (i)
			group_plant(dev, g);
		else
			dev->fallback = g;
	}
	i = 0;
	list_for_each_entry(g, &dev->groups, list) {
		const char *word = words[i++].parent;

		if (!word)
			continue;
		r = parse_parent(dev, g, word, &parent, e);
		if (r)
			return fail_in(e, r, "group", g->name);
		group_set_parent(dev, g, parent);
	}
	return 0;
}

static void device_free(struct ioband_device *dev)
{
	struct ioband_group *g, *next;

	list_for_each_entry_safe(g, next, &dev->groups, list)
		group_free(g);
	groups_reap(dev, true);
	rhashtable_destroy(&dev->by_id);
	kfree(dev);
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
 * type		none, user (uid), gid, pid, pgrp, cgroup
 * policy	weight (default), weight-iosize, range-bw
 * token_base	burst in tokens, 0 the policy's own
 * group	[<id>]:<param>[:<param>][:<key>=<value>]...
 *		without id: the default group
 *		param: weight 1-32767, or min and max in KiB/s
 *		key: rbps, wbps (bytes/s), riops, wiops (I/O/s), burst_ms,
 *		parent (an id)
 *
 * A table may be loaded long before it is live: nothing live changes here.
 *
 * Context: process, sleeps.
 * Return: 0 or a negative errno, with ti->error set.
 */
int ioband_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct ioband_device *dev;
	struct group_words *words;
	struct ioband_error e;
	unsigned int noio, nr;
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
	INIT_LIST_HEAD(&dev->detached);
	r = rhashtable_init(&dev->by_id, &ioband_by_id_params);
	if (r) {
		kfree(dev);
		ti->error = "no memory for a device";
		return r;
	}
	words = kvcalloc(argc - 6, sizeof(*words), GFP_KERNEL);
	if (!words) {
		r = fail(&e, -ENOMEM, "no memory for the groups");
		goto free_dev;
	}
	r = parse_line(dev, argc, argv, words, &nr, &e);
	if (r)
		goto free_words;
	r = open_device(dev, argv[0], &e);
	if (r)
		goto free_words;
	r = check_device(ti, argv[0], dev->dev->bdev, &e);
	if (r)
		goto put_device;

	noio = ioband_lock();
	r = domain_join(dev, argv[0], argv[1], &e);
	if (r) {
		ioband_unlock(noio);
		goto put_device;
	}
	r = add_groups(dev, words, nr, &e);
	ioband_unlock(noio);
	if (r)
		goto leave_domain;
	kvfree(words);

	ti->private = dev;
	ti->per_io_data_size = sizeof(struct ioband_io);
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_secure_erase_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->accounts_remapped_io = true;
	ti->limit_swap_bios = true;
	return 0;

leave_domain:
	domain_leave(dev);
put_device:
	dm_put_device(ti, dev->dev);
free_words:
	kvfree(words);
free_dev:
	device_free(dev);
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

	domain_leave(dev);
	dm_put_device(ti, dev->dev);
	device_free(dev);
}

/*
 * Status
 */

/* dm takes a word apart at blanks, and a backslash as a quote. */
static bool needs_quote(char c)
{
	return isspace(c) || c == '\\';
}

/* A word as a message or a table line takes it. */
static ssize_t emit_word(const char *word, char *result, unsigned int maxlen,
			 ssize_t sz)
{
	for (; *word; word++)
		DMEMIT(needs_quote(*word) ? "\\%c" : "%c", *word);
	return sz;
}

/* <id> <reads> <reads held> <read sectors>, and the same of writes. */
static ssize_t emit_counts(const struct ioband_group *g, char *result,
			   unsigned int maxlen, ssize_t sz)
{
	struct ioband_counts c;
	int dir;

	group_counts(g, &c);
	DMEMIT(" ");
	sz = emit_word(group_name(g), result, maxlen, sz);
	for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
		DMEMIT(" %llu %llu %llu", c.ios[dir] - g->base.ios[dir],
		       c.held[dir] - g->base.held[dir],
		       c.sectors[dir] - g->base.sectors[dir]);
	return sz;
}

/*
 * The id of a group in a table line, and in the statistics. dmsetup quotes what is
 * quoted in a line, so a path that would have to be goes by its number.
 */
static ssize_t emit_id(const struct ioband_group *g, char *result,
		       unsigned int maxlen, ssize_t sz)
{
	const char *c = group_name(g);

	while (*c && !needs_quote(*c))
		c++;
	if (*c)
		DMEMIT("%llu", g->id);
	else
		DMEMIT("%s", group_name(g));
	return sz;
}

/* [<id>]:<param>[:<param>][:<key>=<value>]... */
static ssize_t emit_group(const struct ioband_device *dev,
			  const struct ioband_group *g, char *result,
			  unsigned int maxlen, ssize_t sz)
{
	const struct ioband_policy *policy = dev->set.policy;
	unsigned int i;

	if (g->name)
		sz = emit_id(g, result, maxlen, sz);
	for (i = 0; i < policy->nr_params; i++)
		DMEMIT(":%u", g->params[i]);
	for (i = 0; i < IOBAND_NR_KEYS; i++)
		if (g->rates[i])
			DMEMIT(":%s=%llu", ioband_keys[i], g->rates[i]);
	if (g->burst_ms != BURST_MS_DEFAULT)
		DMEMIT(":burst_ms=%u", g->burst_ms);
	if (g->parent && !dev->type->tree) {
		DMEMIT(":parent=");
		sz = emit_id(g->parent, result, maxlen, sz);
	}
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
	unsigned int noio = ioband_lock();
	const struct ioband_settings *set;
	struct ioband_group *g;
	ssize_t sz = 0;

	set = dev->applied ? &dom->set : &dev->set;
	switch (type) {
	case STATUSTYPE_INFO:
		DMEMIT("%s", dom->name);
		list_for_each_entry(g, &dev->groups, list)
			sz = emit_counts(g, result, maxlen, sz);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %s %u %u %s %s %u", dev->dev->name, dom->name,
		       set->io_throttle, set->io_limit, dev->type->name,
		       set->policy->name, set->token_base);
		list_for_each_entry(g, &dev->groups, list) {
			DMEMIT(" ");
			sz = emit_group(dev, g, result, maxlen, sz);
		}
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",device=%s,domain=%s,io_throttle=%u,io_limit=%u",
		       dev->dev->name, dom->name, set->io_throttle,
		       set->io_limit);
		DMEMIT(",type=%s,policy=%s,token_base=%u", dev->type->name,
		       set->policy->name, set->token_base);
		list_for_each_entry(g, &dev->groups, list) {
			DMEMIT(",group=");
			sz = emit_group(dev, g, result, maxlen, sz);
		}
		DMEMIT(";");
		break;
	}
	ioband_unlock(noio);
}

static const char * const ioband_reasons[] = {
	[IOBAND_RBPS]	= "rbps",
	[IOBAND_WBPS]	= "wbps",
	[IOBAND_RIOPS]	= "riops",
	[IOBAND_WIOPS]	= "wiops",
	[IOBAND_MAX_BW]	= "max-bw",
};

/* Why a group waits now. */
static ssize_t emit_reason(const struct ioband_domain *dom,
			   const struct ioband_group *g, char *result,
			   unsigned int maxlen, ssize_t sz)
{
	const struct ioband_share *by;
	enum ioband_limit limit;

	by = ioband_pausing(&g->share, &limit);
	if (!g->share.held) {
		DMEMIT("none");
	} else if (by == &g->share) {
		DMEMIT("%s", ioband_reasons[limit]);
	} else if (by) {
		DMEMIT("parent:");
		sz = emit_id(container_of(by, struct ioband_group, share),
			     result, maxlen, sz);
	} else if (ioband_is_next(&g->share, ktime_get_ns())) {
		DMEMIT("depth");
	} else {
		DMEMIT("share");
	}
	return sz;
}

/* Of its siblings' weights; none while its device is suspended. */
static u64 share_permille(const struct ioband_share *g)
{
	u64 siblings = ioband_level_weights(g);

	if (!g->active)
		return 0;
	return div64_u64(g->weight * 1000ULL + siblings / 2, siblings);
}

static ssize_t emit_stats(const struct ioband_domain *dom,
			  const struct ioband_group *g, char *result,
			  unsigned int maxlen, ssize_t sz)
{
	const struct ioband_policy *policy = dom->set.policy;
	const struct ioband_waits *w = &g->waits;
	struct ioband_counts c;
	unsigned int i;
	u64 in_flight;

	group_counts(g, &c);
	in_flight = group_in_flight(&c);
	DMEMIT("id=");
	sz = emit_id(g, result, maxlen, sz);
	DMEMIT(" parent=");
	if (g->parent)
		sz = emit_id(g->parent, result, maxlen, sz);
	else
		DMEMIT("none");
	for (i = 0; i < policy->nr_params; i++)
		DMEMIT(" %s=%u", policy->params[i].key, g->params[i]);
	if (policy->nr_params == 1)
		DMEMIT(" share_permille=%llu", share_permille(&g->share));
	DMEMIT(" inflight=%llu held=%u debt=%llu", in_flight, g->share.held,
	       ioband_lead(&g->share));
	DMEMIT(" rd_ios=%llu wr_ios=%llu rd_bytes=%llu wr_bytes=%llu",
	       c.ios[IOBAND_READ] - g->base.ios[IOBAND_READ],
	       c.ios[IOBAND_WRITE] - g->base.ios[IOBAND_WRITE],
	       (c.sectors[IOBAND_READ] - g->base.sectors[IOBAND_READ]) << 9,
	       (c.sectors[IOBAND_WRITE] - g->base.sectors[IOBAND_WRITE]) << 9);
	DMEMIT(" wait_us_total=%llu wait_us_max=%llu wait_hist_us=",
	       div_u64(w->total_ns, NSEC_PER_USEC),
	       div_u64(w->max_ns, NSEC_PER_USEC));
	for (i = 0; i < IOBAND_WAIT_SLOTS - 1; i++)
		DMEMIT("%u:%u,", IOBAND_WAIT_FIRST_US << i, w->hist[i]);
	DMEMIT("inf:%u reason=", w->hist[i]);
	sz = emit_reason(dom, g, result, maxlen, sz);
	DMEMIT("\n");
	return sz;
}

/*
 * Messages. Each is parsed and checked whole before anything changes.
 */

static int set_params(struct ioband_device *dev, char *id, char *text,
		      struct ioband_error *e)
{
	const struct ioband_policy *policy = dev->domain->set.policy;
	struct ioband_group *g;
	struct group_words w;
	int r = 0;

	default_words(policy, &w);
	r = parse_params(text, policy, false, &w, e);
	if (r)
		return r;
	g = id ? group_find(dev, id, e, &r) : dev->fallback;
	if (!g)
		return r;
	memcpy(g->params, w.params, sizeof(g->params));
	group_apply(dev, g);
	return 0;
}

static int message_weight(struct ioband_device *dev, unsigned int argc,
			  char **argv, struct ioband_error *e)
{
	const struct ioband_policy *policy = dev->domain->set.policy;
	char *text = argv[1];
	char *colon = strchr(text, ':');
	char *id = NULL;

	if (strcmp(policy->params[0].name, "weight"))
		return fail(e, -EINVAL, "policy %s has no weights, use %s",
			    policy->name, policy->name);
	if (colon == text || strchr(colon ?: text, '='))
		return fail(e, -EINVAL,
			    "\"%.64s\" must be written [<id>:]<weight>", text);
	if (colon)
		id = strsep(&text, ":");
	return set_params(dev, id, text, e);
}

static int message_range_bw(struct ioband_device *dev, unsigned int argc,
			    char **argv, struct ioband_error *e)
{
	const struct ioband_policy *policy = dev->domain->set.policy;
	char *text = argv[1];
	char *colon = strchr(text, ':');
	char *id;

	if (strcmp(policy->name, argv[0]))
		return fail(e, -EINVAL, "policy %s has no ranges, use weight",
			    policy->name);
	if (!colon || colon == text || strchr(colon, '='))
		return fail(e, -EINVAL,
			    "\"%.64s\" must be written <id>:<min>:<max>, where id is default for the default group",
			    text);
	id = strsep(&text, ":");
	return set_params(dev, id, text, e);
}

static int message_limit(struct ioband_device *dev, unsigned int argc,
			 char **argv, struct ioband_error *e)
{
	struct ioband_group *g;
	struct group_words w;
	unsigned int i;
	int r = 0;

	g = group_find(dev, argv[1], e, &r);
	if (!g)
		return r;
	memcpy(w.rates, g->rates, sizeof(w.rates));
	w.burst_ms = g->burst_ms;
	w.parent = NULL;
	w.seen = 0;
	for (i = 2; i < argc; i++) {
		r = parse_key(argv[i], "", &w, e);
		if (r)
			return r;
	}
	if (w.parent)
		return fail(e, -EINVAL, "use parent <id> <parent-id>|none");
	memcpy(g->rates, w.rates, sizeof(g->rates));
	g->burst_ms = w.burst_ms;
	group_apply(dev, g);
	return 0;
}

static int message_parent(struct ioband_device *dev, unsigned int argc,
			  char **argv, struct ioband_error *e)
{
	struct ioband_group *g, *parent;
	int r = 0;

	g = group_find(dev, argv[1], e, &r);
	if (!g)
		return r;
	r = parse_parent(dev, g, argv[2], &parent, e);
	if (!r && parent != g->parent)
		group_set_parent(dev, g, parent);
	return r;
}

static int message_attach(struct ioband_device *dev, unsigned int argc,
			  char **argv, struct ioband_error *e)
{
	const struct ioband_policy *policy = dev->domain->set.policy;
	struct ioband_group *g, *parent = NULL;
	struct group_words w;
	char *text = argv[1];
	int r;

	default_words(policy, &w);
	w.id = strsep(&text, ":");
	if (!*w.id)
		return fail(e, -EINVAL,
			    "must be written <id>[:<parameters>], the id is empty");
	if (text) {
		r = parse_params(text, policy, true, &w, e);
		if (r)
			return r;
	}
	if (w.parent) {
		/* Checked before there is a group: it can't be below itself. */
		struct ioband_group none = { .name = w.id };

		r = parse_parent(dev, &none, w.parent, &parent, e);
		if (r)
			return r;
	}
	groups_reap(dev, false);
	r = group_add(dev, &w, &g, e);
	if (r)
		return r;
	group_plant(dev, g);
	if (parent)
		group_set_parent(dev, g, parent);
	group_apply(dev, g);
	return 0;
}

static int message_detach(struct ioband_device *dev, unsigned int argc,
			  char **argv, struct ioband_error *e)
{
	struct ioband_domain *dom = dev->domain;
	struct ioband_group *g, *child;
	unsigned long flags;
	int r = 0;

	g = group_find(dev, argv[1], e, &r);
	if (!g)
		return r;
	if (g == dev->fallback)
		return fail(e, -EINVAL, "the default group can't be detached");
	groups_reap(dev, false);
	list_for_each_entry(child, &dev->groups, list)
		if (child->parent == g)
			group_set_parent(dev, child, g->parent);
	rhashtable_remove_fast(&dev->by_id, &g->hash, ioband_by_id_params);
	spin_lock_irqsave(&dom->lock, flags);
	list_move_tail(&g->list, &dev->detached);
	__ioband_group_release(dev, g);
	spin_unlock_irqrestore(&dom->lock, flags);
	g->rcu = start_poll_synchronize_rcu();
	return 0;
}

static int message_type(struct ioband_device *dev, unsigned int argc,
			char **argv, struct ioband_error *e)
{
	const struct ioband_type *type;
	int r = parse_type(argv[1], &type, e);

	if (r || type == dev->type)
		return r;
	if (!list_is_singular(&dev->groups))
		return fail(e, -EBUSY,
			    "type %s has groups: detach them first",
			    dev->type->name);
	WRITE_ONCE(dev->type, type);
	return 0;
}

static int message_policy(struct ioband_device *dev, unsigned int argc,
			  char **argv, struct ioband_error *e)
{
	struct ioband_domain *dom = dev->domain;
	struct ioband_settings set = dom->set;
	struct ioband_device *d;
	struct ioband_group *g;
	unsigned long flags;
	u64 now_ns;
	int r;

	set.token_base = 0;
	r = parse_policy(argv[1], &set.policy, e);
	if (!r && argc > 2)
		r = parse_number(argv[2], "token_base", 0, U32_MAX,
				 &set.token_base, e);
	if (r)
		return r;
	if (set.policy == dom->set.policy) {
		if (argc > 2 && set.token_base != dom->set.token_base)
			DMWARN("policy %s is in force, token_base stays %u: use message token",
			       set.policy->name, dom->set.token_base);
		return 0;
	}

	now_ns = ktime_get_ns();
	spin_lock_irqsave(&dom->lock, flags);
	dom->set = set;
	dom->sched.token_base = set.token_base;
	ioband_sched_set_policy(&dom->sched, set.policy);
	list_for_each_entry(d, &dom->devices, list) {
		if (!d->applied)
			continue;
		d->set.policy = set.policy;
		list_for_each_entry(g, &d->groups, list) {
			/* It was charged in the old policy's tokens. */
			__ioband_fold(dom, g);
			default_params(set.policy, g->params);
			__group_apply(dom, g, now_ns);
		}
		__device_refresh(d);
	}
	__ioband_domain_wake(dom, now_ns);
	spin_unlock_irqrestore(&dom->lock, flags);
	return 0;
}

static int message_number(struct ioband_device *dev, const char *what,
			  const char *word, u32 max, u32 *value,
			  struct ioband_settings *set, struct ioband_error *e)
{
	int r = parse_number(word, what, 0, max, value, e) ?:
		check_settings(set, e);

	if (!r)
		domain_set(dev->domain, set);
	return r;
}

static int message_io_throttle(struct ioband_device *dev, unsigned int argc,
			       char **argv, struct ioband_error *e)
{
	struct ioband_settings set = dev->domain->set;

	return message_number(dev, argv[0], argv[1], IOBAND_DEPTH_MAX,
			      &set.io_throttle, &set, e);
}

static int message_io_limit(struct ioband_device *dev, unsigned int argc,
			    char **argv, struct ioband_error *e)
{
	struct ioband_settings set = dev->domain->set;

	return message_number(dev, argv[0], argv[1], IOBAND_DEPTH_MAX,
			      &set.io_limit, &set, e);
}

static int message_token(struct ioband_device *dev, unsigned int argc,
			 char **argv, struct ioband_error *e)
{
	struct ioband_settings set = dev->domain->set;

	return message_number(dev, argv[0], argv[1], U32_MAX, &set.token_base,
			      &set, e);
}

static int message_carryover(struct ioband_device *dev, unsigned int argc,
			     char **argv, struct ioband_error *e)
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

static int message_reset(struct ioband_device *dev, unsigned int argc,
			 char **argv, struct ioband_error *e)
{
	struct ioband_domain *dom = dev->domain;
	struct ioband_group *g;
	unsigned long flags;

	list_for_each_entry(g, &dev->groups, list) {
		group_counts(g, &g->base);
		spin_lock_irqsave(&dom->lock, flags);
		memset(&g->waits, 0, sizeof(g->waits));
		spin_unlock_irqrestore(&dom->lock, flags);
	}
	return 0;
}

/* One line a group, then one of the domain; for one group, its line alone. */
static int message_stats(struct ioband_device *dev, unsigned int argc,
			 char **argv, struct ioband_error *e, char *result,
			 unsigned int maxlen)
{
	struct ioband_domain *dom = dev->domain;
	struct ioband_group *g, *only = NULL;
	struct ioband_device *d;
	unsigned long flags;
	size_t groups = 0;
	ssize_t sz = 0;
	int r = 0;

	if (argc > 1) {
		only = group_find(dev, argv[1], e, &r);
		if (!only)
			return r;
	}
	list_for_each_entry(g, &dev->groups, list) {
		if (only && g != only)
			continue;
		spin_lock_irqsave(&dom->lock, flags);
		sz = emit_stats(dom, g, result, maxlen, sz);
		spin_unlock_irqrestore(&dom->lock, flags);
	}
	if (only)
		return 1;
	DMEMIT("domain=%s policy=%s io_throttle=%u,%s io_limit=%u,%s",
	       dom->name, dom->set.policy->name, dom->depth,
	       dom->set.io_throttle ? "set" : "auto", dom->limit,
	       dom->set.io_limit ? "set" : "auto");
	DMEMIT(" token_base=%u carryover=%u inflight=%d held=%u",
	       dom->set.token_base, dom->sched.carryover,
	       atomic_read(&dom->in_flight), READ_ONCE(dom->sched.held));
	list_for_each_entry(d, &dom->devices, list)
		groups += list_count_nodes(&d->groups);
	DMEMIT(" groups=%zu rounds=%llu idles=%llu\n", groups,
	       dom->sched.rounds, dom->sched.idles);
	return 1;
}

/**
 * struct ioband_message - a message of "dmsetup message"
 * @word: first word
 * @args: the words that follow, for the error
 * @least: number of words at least, the first one included
 * @most: number of words at most
 * @run: does it; under ioband_mutex
 */
struct ioband_message {
	const char *word;
	const char *args;
	unsigned int least;
	unsigned int most;
	int (*run)(struct ioband_device *dev, unsigned int argc, char **argv,
		   struct ioband_error *e);
};

static const struct ioband_message ioband_messages[] = {
	{ "weight", " [<id>:]<weight>", 2, 2, message_weight },
	{ "range-bw", " <id>:<min>:<max>", 2, 2, message_range_bw },
	{ "limit", " <id> <key>=<value>...", 3, UINT_MAX, message_limit },
	{ "parent", " <id> <parent-id>|none", 3, 3, message_parent },
	{ "attach", " <id>[:<param>...]", 2, 2, message_attach },
	{ "detach", " <id>", 2, 2, message_detach },
	{ "type", " <type>", 2, 2, message_type },
	{ "policy", " <policy> [<token_base>]", 2, 3, message_policy },
	{ "token", " <number>", 2, 2, message_token },
	{ "carryover", " <number>", 2, 2, message_carryover },
	{ "io_throttle", " <number>", 2, 2, message_io_throttle },
	{ "io_limit", " <number>", 2, 2, message_io_limit },
	{ "reset", "", 1, 1, message_reset },
	/* Has a text to return: called by itself. */
	{ "stats", " [<id>]", 1, 2, NULL },
};

static const struct ioband_message *
message_find(unsigned int argc, const char *word, struct ioband_error *e)
{
	const struct ioband_message *m;
	char words[160] = "";
	size_t len = 0, i;

	for (i = 0; i < ARRAY_SIZE(ioband_messages); i++) {
		m = &ioband_messages[i];
		if (strcmp(m->word, word)) {
			len += scnprintf(words + len, sizeof(words) - len,
					 "%s%s", i ? ", " : "", m->word);
			continue;
		}
		if (argc >= m->least && argc <= m->most)
			return m;
		fail(e, 0, "too %s words, must be: %s%s",
		     argc < m->least ? "few" : "many", m->word, m->args);
		return NULL;
	}
	fail(e, 0, "message \"%.32s\" is unknown, allowed are: %s", word, words);
	return NULL;
}

/**
 * ioband_message - dm's message callback
 * @ti: target
 * @argc: number of words
 * @argv: the words
 * @result: buffer for what the message returns
 * @maxlen: its size
 *
 * Context: process; takes ioband_mutex.
 * Return: 0, 1 if there is a result, or a negative errno with a line in the
 * kernel log.
 */
int ioband_message(struct dm_target *ti, unsigned int argc, char **argv,
		   char *result, unsigned int maxlen)
{
	struct ioband_device *dev = ti->private;
	const struct ioband_message *m;
	struct ioband_error e;
	unsigned int noio;
	int r = -EINVAL;

	m = message_find(argc, argc ? argv[0] : "", &e);
	if (m) {
		noio = ioband_lock();
		r = m->run ? m->run(dev, argc, argv, &e) :
		    message_stats(dev, argc, argv, &e, result, maxlen);
		ioband_unlock(noio);
	}
	if (r < 0)
		DMERR("%s: message refused: %s",
		      dm_table_device_name(ti->table), e.text);
	return r;
}
