/* How threads wait for one another. */
#ifndef GRAIL_CLI_WAITING_H
#define GRAIL_CLI_WAITING_H

/**
 * Lets threads that wait sleep after some microseconds; OpenMP's default is to spin for
 * milliseconds, which takes the processors from other programs and from the thread that is waited
 * for. OpenMP reads the environment before main, so that the program starts itself once more, with
 * the same process number and descriptors. Does nothing where the user has set how to wait, and
 * where the program cannot be started again.
 */
void waiting_threads_sleep(char **arguments);

#endif
