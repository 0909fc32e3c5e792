/* Ctrl-C and SIGTERM in commands that end at a safe point. The other commands end at once. */
#ifndef GRAIL_CLI_INTERRUPT_H
#define GRAIL_CLI_INTERRUPT_H

#include <stdbool.h>

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

#endif
