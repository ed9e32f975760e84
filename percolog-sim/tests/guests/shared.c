// Memory that processes share, and memory that looks like it: how it comes about, and how many processes use it, are the arguments.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 8192
#define ROUNDS 200

static long *map(int fd, int rights) {
    int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *found = mmap(0, SIZE, rights, flags, fd, 0);
    if (found == MAP_FAILED) exit(2);
    return found;
}

static int file(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, SIZE) != 0) exit(2);
    return fd;
}

static void count(long *counter) {
    for (int i = 0; i < ROUNDS; i++) __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

// anonymous, memfd, file, segment, protected: inherited.  opened: each process maps the file by itself.
// apart: each process maps the file by itself, on a machine of its own.  alone: the children do not touch it.  executed: they become another program.  read: nobody may write it.
int main(int count_of_arguments, char **arguments) {
    const char *how = arguments[1];
    int processes = atoi(arguments[2]);
    const char *name = count_of_arguments > 3 ? arguments[3] : "";
    long *counter = 0;
    if (!strcmp(how, "anonymous") || !strcmp(how, "alone") || !strcmp(how, "executed")) {
        counter = map(-1, PROT_READ | PROT_WRITE);
    } else if (!strcmp(how, "memfd")) {
        int fd = memfd_create("counters", 0);
        if (ftruncate(fd, SIZE) != 0) exit(2);
        counter = map(fd, PROT_READ | PROT_WRITE);
    } else if (!strcmp(how, "file")) {
        counter = map(file(name), PROT_READ | PROT_WRITE);
    } else if (!strcmp(how, "read")) {
        counter = map(file(name), PROT_READ);
    } else if (!strcmp(how, "protected")) {
        counter = map(-1, PROT_READ);
        if (mprotect(counter, SIZE, PROT_READ | PROT_WRITE) != 0) exit(2);
    } else if (!strcmp(how, "segment")) {
        int segment = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
        counter = shmat(segment, 0, 0);
        shmctl(segment, IPC_RMID, 0);
        if (counter == (void *)-1) exit(2);
    }
    if (!strcmp(how, "single")) {
        count(map(file(name), PROT_READ | PROT_WRITE));
        return 0;
    }
    // What the parent has done before the fork counts: the line is in its cache.
    if (counter && strcmp(how, "read")) count(counter);
    for (int i = 0; i < processes; i++) {
        if (fork() != 0) continue;
        if (!strcmp(how, "alone")) _exit(0);
        if (!strcmp(how, "executed")) {
            execl("/bin/true", "true", (char *)0);
            _exit(3);
        }
        if (!strcmp(how, "apart")) {
            execl(arguments[0], arguments[0], "single", "0", name, (char *)0);
            _exit(3);
        }
        if (!strcmp(how, "read")) _exit(counter[0] < 0);
        if (!counter) counter = map(file(name), PROT_READ | PROT_WRITE);
        count(counter);
        _exit(0);
    }
    int failed = 0;
    for (int i = 0, status; i < processes; i++) {
        wait(&status);
        failed |= status;
    }
    if (counter) printf("%ld\n", counter[0]);
    return failed != 0;
}
