/* SPDX-License-Identifier: GPL-2.0-only */
/* Circular lists with the kernel's names; removed entries are poisoned. */
#ifndef SHIM_LIST_H
#define SHIM_LIST_H

#include <linux/types.h>

struct list_head {
	struct list_head *next, *prev;
};

#define SHIM_LIST_POISON	((struct list_head *)0x100)

static inline void INIT_LIST_HEAD(struct list_head *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool list_empty(const struct list_head *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list_head *e, struct list_head *l)
{
	e->prev = l->prev;
	e->next = l;
	l->prev->next = e;
	l->prev = e;
}

static inline void list_add(struct list_head *e, struct list_head *l)
{
	list_add_tail(e, l->next);
}

static inline void list_del(struct list_head *e)
{
	e->prev->next = e->next;
	e->next->prev = e->prev;
	e->next = SHIM_LIST_POISON;
	e->prev = SHIM_LIST_POISON;
}

static inline void list_del_init(struct list_head *e)
{
	list_del(e);
	INIT_LIST_HEAD(e);
}

static inline void list_move_tail(struct list_head *e, struct list_head *l)
{
	list_del(e);
	list_add_tail(e, l);
}

#define list_entry(p, type, member)	container_of(p, type, member)
#define list_first_entry(l, type, member) list_entry((l)->next, type, member)
#define list_last_entry(l, type, member) list_entry((l)->prev, type, member)
#define list_first_entry_or_null(l, type, member) \
	(list_empty(l) ? NULL : list_first_entry(l, type, member))
#define list_next_entry(p, member) \
	list_entry((p)->member.next, __typeof__(*(p)), member)

#define list_for_each_entry(p, l, member)				\
	for (p = list_first_entry(l, __typeof__(*p), member);		\
	     &p->member != (l);						\
	     p = list_next_entry(p, member))

#define list_for_each_entry_safe(p, n, l, member)			\
	for (p = list_first_entry(l, __typeof__(*p), member),		\
	     n = list_next_entry(p, member);				\
	     &p->member != (l);						\
	     p = n, n = list_next_entry(n, member))

#endif /* SHIM_LIST_H */
