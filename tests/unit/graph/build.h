/* Small graphs by hand: one call per node, the value it makes returned. */
#ifndef GRAIL_TESTS_GRAPH_BUILD_H
#define GRAIL_TESTS_GRAPH_BUILD_H

#include "support/support.h"

#include "graph/site.h"

/** y = x W^T with W "<name>.weight" [out, in], and b "<name>.bias" when `bias`. */
int add_linear(graph *g, int block, const char *name, int64_t in, int64_t out, bool bias, int x);
/** RMSNorm "<name>.weight" over groups of `group`, 0 = the full width. */
int add_norm(graph *g, int block, const char *name, int64_t width, int64_t group, int x);
int add_embedding(graph *g, const char *name, int64_t vocabulary, int64_t width);
/** Activation or rotary positions of one value; Add or Multiply of two. */
int add_plain(graph *g, int block, node_kind kind, int left, int right);
/** The shares of a router that chooses so many outputs per row, rows that one output takes by them,
 * and `rows` added in their places to `sum`. */
int add_route(graph *g, int block, int64_t chosen, int scores);
int add_take_rows(graph *g, int block, int64_t output, int shares, int x);
int add_put_rows(graph *g, int block, int64_t output, int shares, int rows, int sum);
int add_attention(graph *g, int block, int64_t head_dim, int q, int k, int v);

/** y = conv(x) with W "<name>.weight" [out, in, kernel, kernel], padded to keep the positions. */
int add_conv(graph *g, int block, const char *name, int64_t in, int64_t out, int64_t kernel,
             int64_t stride, int x);
/** BatchNorm "<name>.weight", ".bias", ".mean", ".variance". */
int add_batch_norm(graph *g, int block, const char *name, int64_t width, int x);
/** Every second position, with `pad` zero channels on both sides. */
int add_shortcut(graph *g, int block, int64_t pad, int x);

/** Two or three values side by side (GRAPH_NONE: two); `length` channels from `first` on. */
int add_concat(graph *g, int block, int first, int second, int third);
int add_slice(graph *g, int block, int64_t first, int64_t length, int x);
int add_zeros(graph *g, int block, int64_t channels, int x);

/** The site of that name; the test fails without it. */
const site *find_site(const site_list *sites, const char *name);
/**
 * The sites of a graph are those of `expected`, one a line:
 *   NAME KIND BLOCK, UNITS units[ in GROUPS groups][ of SUBUNITS][ behind a norm], N each: ENDS >
 * ENDS[ with ENDS] whose ends are producers, consumers and channels: names of weights without
 * ".weight", with "*F" for F features a unit, "@I" where they begin at row or column I, "~" where
 * these can be reordered. A stream's producer on the branch has "!".
 */
void assert_sites(const graph *g, gqa_mode mode, const char *expected);

/** Sites are derived with each allocation failing in turn. */
void assert_derivation_survives(graph *g);

#endif
