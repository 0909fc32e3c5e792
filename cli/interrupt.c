#include "interrupt.h"

#include <signal.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGTERM};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static bool is_caught[NUMBERS], tells;
static volatile sig_atomic_t noted;

/* A signal handler: calls only async-signal-safe functions. */
static void note(int number)
{
    static const char text[] =
        "\ngrail: stopping at the next safe point; press Ctrl-C again to stop at once\n";
    noted = number;
    for (int i = 0; i < NUMBERS; i++) {
        if (is_caught[i]) {
            signal(numbers[i], SIG_DFL);
        }
    }
    if (tells && write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        return; /* nobody is left to tell */
    }
}

void interrupt_catch(void)
{
    tells = isatty(STDERR_FILENO) != 0;
    for (int i = 0; i < NUMBERS; i++) {
        struct sigaction before;
        struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
        sigfillset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            is_caught[i] = true; /* set before the handler can read it */
            sigaction(numbers[i], &action, NULL);
        }
    }
}

bool interrupt_came(void)
{
    return noted != 0;
}

void interrupt_end(void)
{
    if (noted != 0) {
        signal((int)noted, SIG_DFL);
        raise((int)noted);
    }
}
