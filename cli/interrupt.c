#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGTERM};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static volatile sig_atomic_t tells, defers, noted;

/* The first process of a container does not end by a signal's default action, so it exits with the
 * code that a shell shows for it. Calls only async-signal-safe functions. */
static void end_by(int number)
{
    sigset_t one;
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    _exit(128 + number);
}

/* A signal handler. */
static void handle(int number)
{
    static const char text[] =
        "\ngrail: stopping at the next safe point; press Ctrl-C again to stop at once\n";
    if (!defers || noted != 0) {
        end_by(number);
    }
    noted = number;
    if (tells && write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        return; /* nobody is left to tell */
    }
}

void interrupt_start(void)
{
    for (int i = 0; i < NUMBERS; i++) {
        struct sigaction before;
        struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
        sigfillset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(numbers[i], &action, NULL);
        }
    }
}

void interrupt_catch(void)
{
    tells = isatty(STDERR_FILENO) != 0;
    defers = 1;
}

bool interrupt_came(void)
{
    return noted != 0;
}

void interrupt_end(void)
{
    if (noted != 0) {
        end_by((int)noted);
    }
}
