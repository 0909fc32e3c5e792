/* Commands that are programs of their own: grail NAME runs grail-NAME, as git does. */
#ifndef GRAIL_CLI_EXTERNAL_H
#define GRAIL_CLI_EXTERNAL_H

/** Becomes the program grail-NAME of a directory of PATH, where argv[0] is NAME; what follows it
 * are its arguments, and its exit code is that of this process. Returns where there is none. */
void external_run(char **argv);

#endif
