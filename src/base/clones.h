/* CPU_CLONES before a function makes gcc compile it for several instruction sets and pick one when
 * the program starts. The function must be static: gcc makes the names of clones visible.
 * Contraction to fused operations is off, so every clone gives the same bits. Sanitizers do not
 * survive the resolver, which runs before they are set up. */
#ifndef GRAIL_BASE_CLONES_H
#define GRAIL_BASE_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

#endif
