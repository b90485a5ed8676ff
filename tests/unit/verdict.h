/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Properties that are checked in thousands of random scenarios, each of which
 * follows from its seed alone.
 */
#ifndef DM_IOBAND_VERDICT_H
#define DM_IOBAND_VERDICT_H

#include <time.h>

#include "harness.h"
#include "sim.h"

/**
 * struct verdict - what became of a property
 * @checked: how often it was put to the test
 * @failed: how often it failed
 * @seed: of the first failure
 * @what: happened then
 */
struct verdict {
	u32 checked;
	u32 failed;
	u64 seed;
	char what[256];
};

__attribute__((format(printf, 4, 5)))
static inline void verdict_add(struct verdict *v, u64 seed, bool ok,
			       const char *fmt, ...)
{
	va_list args;

	v->checked++;
	/* The first failure tells most; of the others the number. */
	if (ok || v->failed++)
		return;
	v->seed = seed;
	va_start(args, fmt);
	vsnprintf(v->what, sizeof(v->what), fmt, args);
	va_end(args);
}

static inline void test_verdict(void **state)
{
	const struct verdict *v = *state;

	if (v->failed)
		failf("%u of %u checks failed, first with seed %llu: %s; replay: IOBAND_SEED=%llu make -C tests/unit check",
		      v->failed, v->checked, v->seed, v->what, v->seed);
	/* A property that nothing puts to the test says nothing. */
	if (!getenv("IOBAND_SEED"))
		assert_true(v->checked >= 1000);
}

/* A test for each property. */
static inline void add_verdicts(struct harness *h, const char *const *names,
				struct verdict *verdicts, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		add_test(h, names[i], test_verdict, &verdicts[i]);
}

/* Seeds 1 to @fixed, or those that the environment asks for. */
static inline void run_scenarios(void (*run)(u64 seed), u64 fixed)
{
	const char *one = getenv("IOBAND_SEED");
	const char *more = getenv("IOBAND_SEEDS");
	u64 seed, n = more ? strtoull(more, NULL, 0) : 0;
	struct sim_rand r;

	if (one) {
		run(strtoull(one, NULL, 0));
		return;
	}
	for (seed = 1; seed <= fixed; seed++)
		run(seed);
	sim_rand_seed(&r, time(NULL));
	while (n--)
		run(sim_rand_next(&r));
}

#endif /* DM_IOBAND_VERDICT_H */
