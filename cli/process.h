/* What the process has to do with others: its standard descriptors, signals, and the programs that
 * it becomes. */
#ifndef GRAIL_CLI_PROCESS_H
#define GRAIL_CLI_PROCESS_H

#include <stdbool.h>

/**
 * Opens /dev/null on each of the descriptors 0 to 2 that is closed. Otherwise the first files that
 * the program opens would get these numbers, and printed text would end up in them. A replaced
 * standard input is empty, writes to a replaced standard output fail, and writes to a replaced
 * standard error are dropped. Must be called before anything is opened; false when /dev/null cannot
 * be opened.
 */
bool descriptors_open_missing(void);

/* Ctrl-C and SIGTERM in commands that end at a safe point. The other commands end at once. */

/** Called once, before anything else: SIGINT and SIGTERM end the program at once, as they would by
 * themselves; and also where it is the first process of a container, which no signal ends by
 * itself. A signal that the program was started to ignore stays ignored. */
void interrupt_start(void);

/** From now on the first SIGINT or SIGTERM is only noted, and the second ends the program at once.
 */
void interrupt_catch(void);

/** Whether a signal has been noted; the command should then end at the next point where nothing is
 * lost. */
bool interrupt_came(void);

/** Ends the program by the signal that was noted, so that the shell also ends the loop or script
 * around it; the shell shows 130 for SIGINT and 143 for SIGTERM. Returns when no signal was noted.
 */
void interrupt_end(void);

/* Commands that are programs of their own: grail NAME runs grail-NAME, as git does. */

/** Becomes the program grail-NAME of a directory of PATH, where argv[0] is NAME; what follows it
 * are its arguments, and its exit code is that of this process. Returns where there is none. */
void external_run(char **argv);

/** Tells the library where PyTorch is, by the variable GRAIL_TORCH: in the directory that is named,
 * or for NULL, where the variable is not set yet, in the package that python3 of PATH would import.
 */
void torch_find(const char *named);

/** Tells it where ONNX Runtime is, by GRAIL_ONNXRUNTIME, where that is not set and one of the
 * arguments is an ONNX file or a directory with one: in the package that python3 would import. */
void onnxruntime_find(int argc, char **argv);

/** Lets blocks of up to 32 MiB come from memory that the process has freed, of which it keeps up to
 * 2 GiB at the end of its heap: else the kernel clears their pages anew each time, which takes up
 * to a sixth of a run. Under a limit of address space or data nothing is kept, which would be
 * missing elsewhere, and threads share a heap: glibc reserves 64 MiB for one of a thread's own, at
 * any allocation of it where earlier ones found no room, and BLIS aborts where that takes what was
 * left for it. */
void heap_arrange(void);

#endif
