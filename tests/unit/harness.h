/* SPDX-License-Identifier: GPL-2.0-only */
/* What both test programs need of cmocka: lists of tests, one row each. */
#ifndef DM_IOBAND_HARNESS_H
#define DM_IOBAND_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <linux/time64.h>

#define USEC		((u64)NSEC_PER_USEC)
#define MSEC		((u64)NSEC_PER_MSEC)
#define SEC		((u64)NSEC_PER_SEC)

#define MAX_TESTS	256

struct harness {
	struct CMUnitTest tests[MAX_TESTS];
	size_t nr;
};

static inline void add_test(struct harness *h, const char *name,
			    CMUnitTestFunction fn, const void *row)
{
	if (h->nr == MAX_TESTS)
		abort();
	h->tests[h->nr++] = (struct CMUnitTest){
		name, fn, NULL, NULL, (void *)row,
	};
}

/* One test for each row of a table whose rows begin with their name. */
#define add_table(h, fn, table) do {					\
	size_t _i;							\
									\
	for (_i = 0; _i < sizeof(table) / sizeof((table)[0]); _i++)	\
		add_test(h, (table)[_i].name, fn, &(table)[_i]);	\
} while (0)

/* TAP shows what goes to stdout; cmocka's own messages don't. */
#define failf(...) do {							\
	print_message("# " __VA_ARGS__);				\
	print_message("\n");						\
	fail();								\
} while (0)

static inline int run_harness(struct harness *h, const char *name)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests(name, h->tests, h->nr, NULL, NULL) != 0;
}

#endif /* DM_IOBAND_HARNESS_H */
