/* Becomes other programs, and starts some: `executes <folder>`, where `script` is a script that prints its arguments. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int status_of(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void *idle(void *unused) {
    pause();
    return unused;
}

int main(int count, char **arguments) {
    char script[4096];
    pthread_t thread;
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count == 2 && strcmp(arguments[1], "again") == 0) {
        printf("%s again\n", arguments[0]);
        return 9;
    }
    snprintf(script, sizeof script, "%s/script", arguments[1]);
    char *missing[] = {"missing", NULL};
    execv("/nonexistent/program", missing);
    printf("missing: %d\n", errno == ENOENT);
    execv("/", missing);
    printf("a folder: %d\n", errno == EACCES);

    pid_t child = fork();
    if (child == 0)
        execlp("sh", "sh", "-c", "exit 3", NULL);
    printf("forked: %d\n", status_of(child));
    char *spawned[] = {"sh", "-c", "echo spawned; exit 4", NULL};
    posix_spawnp(&child, "sh", NULL, NULL, spawned, environ);
    printf("spawned: %d\n", status_of(child));
    printf("system: %d\n", system("exit 5") >> 8);
    child = vfork();
    if (child == 0) {
        execl(script, "a name of its own", "one", "two words", NULL);
        _exit(99);
    }
    printf("script: %d\n", status_of(child));

    /* With a thread that goes under. */
    pthread_create(&thread, NULL, idle, NULL);
    char *again[] = {"myself", "again", NULL};
    execv("/proc/self/exe", again);
    return 1;
}
