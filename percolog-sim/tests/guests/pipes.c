/* Threads that talk through the kernel: whoever reads must let the writer run. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static int to[2], from[2], event;

static void *echo(void *unused) {
    char byte;
    while (read(to[0], &byte, 1) == 1) {
        byte++;
        if (write(from[1], &byte, 1) != 1)
            break;
    }
    return unused;
}

static void *fill(void *unused) {
    /* More than a pipe holds. */
    static char bytes[1 << 18];
    if (write(to[1], bytes, sizeof bytes) != sizeof bytes)
        puts("short write");
    return unused;
}

static void *signal_event(void *unused) {
    uint64_t one = 1;
    usleep(1000);
    if (write(event, &one, sizeof one) != sizeof one)
        puts("no event");
    return unused;
}

int main(void) {
    pthread_t thread;
    char byte = 0, bytes[4096];
    if (pipe(to) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, from) != 0)
        return 1;
    pthread_create(&thread, NULL, echo, NULL);
    for (int i = 0; i < 100; i++)
        if (write(to[1], &byte, 1) != 1 || read(from[0], &byte, 1) != 1)
            return 1;
    printf("%d\n", byte);
    close(to[1]);
    pthread_join(thread, NULL);

    if (pipe(to) != 0)
        return 1;
    pthread_create(&thread, NULL, fill, NULL);
    long sum = 0;
    while (sum < 1 << 18)
        sum += read(to[0], bytes, sizeof bytes);
    pthread_join(thread, NULL);
    printf("%ld\n", sum);

    event = eventfd(0, 0);
    struct pollfd fd = {event, POLLIN, 0};
    printf("%d", poll(&fd, 1, 20));
    pthread_create(&thread, NULL, signal_event, NULL);
    printf(" %d", poll(&fd, 1, -1));
    int set = epoll_create1(0);
    struct epoll_event interest = {.events = EPOLLIN}, found;
    epoll_ctl(set, EPOLL_CTL_ADD, event, &interest);
    printf(" %d\n", epoll_wait(set, &found, 1, 1000));
    pthread_join(thread, NULL);
    return 0;
}
