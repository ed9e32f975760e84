/* Closes every file but input and output, becomes another user if it may, and then itself; says how many files of the
   simulator it can see before and after. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int hidden(void) {
    char name[512], target[512];
    struct dirent *entry;
    int found = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && (entry = readdir(folder))) {
        snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        found += strstr(target, "percolog-plugin") != NULL;
    }
    if (folder)
        closedir(folder);
    return found;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("%s: %d\n", count > 1 ? "after" : "before", hidden());
    if (count > 1)
        return 7;
    char *nobody[] = {arguments[0], NULL};
    execv("/nonexistent/program", nobody);
    printf("still there: %d\n", hidden());
    for (int file = 3; file < 2048; file++)
        close(file);
    (void)!setgid(65534);
    (void)!setuid(65534);
    char *again[] = {arguments[0], "again", NULL};
    execv(arguments[0], again);
    return 1;
}
