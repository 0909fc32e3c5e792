/* The command line that was given, to show it again. */
#ifndef GRAIL_CLI_COMMAND_LINE_H
#define GRAIL_CLI_COMMAND_LINE_H

#include "options.h"

/** Notes the arguments of the program; they are borrowed. */
void command_line_note(int argc, char **argv);

/** The command line as a shell reads it, with `more` behind it unless it holds that already; `more`
 * may be NULL. The caller frees it; NULL when memory runs out. */
char *command_line_text(const char *more);

/** Ends a line on stderr that says that a run to `output` was interrupted: with where its finished
 * part is, if there is one, and the command line that continues it. */
void command_line_print_resume(const char *output);
/** The whole of it; returns EXIT_FAILED. */
int command_line_print_interrupted(const char *output);
/** print_failure of a run, and the command line that continues it where that is possible. */
int command_line_print_failure(grail_status status);

/** The command line as it is recorded beside a result: "grail" and what decides the result, with
 * other words in place of what is of this machine alone (option.recorded). The caller frees it;
 * NULL when memory runs out. */
char *command_line_recorded(void);

/** A command line for another command, "grail NAME" with the same positional arguments, `words` as
 * a shell reads them, and what the given options say of samples and of the machine. The caller
 * frees it; NULL when memory runs out. */
char *command_line_next(const char *name, const char *const words[]);

#endif
