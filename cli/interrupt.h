/* Ctrl-C and SIGTERM in commands that have something to finish; the others end at once. */
#ifndef GRAIL_CLI_INTERRUPT_H
#define GRAIL_CLI_INTERRUPT_H

#include <stdbool.h>

/** From now on the first SIGINT or SIGTERM is only noted, and the second ends the program at once.
 * What the program was started to ignore stays ignored. */
void interrupt_catch(void);

/** Whether one has been noted: the command should end where nothing is lost. */
bool interrupt_came(void);

/** Ends the program by the signal that was noted, so that the shell, which shows 130 for SIGINT and
 * 143 for SIGTERM, also ends the loop or script around it. Returns when there was none. */
void interrupt_end(void);

#endif
