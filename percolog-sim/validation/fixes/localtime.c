// localtime_r() takes glibc's lock of time zones; Redis computes it by itself, with what the zone was at the beginning.
#define _DEFAULT_SOURCE
#include "threads.h"
#include <time.h>

static void begin(void) {
    setenv("TZ", "UTC", 1);
    tzset();
}

static void prepare(int thread) {}

/// The time of day, and the day of the year.
static void without_lock(time_t at, struct tm *to) {
    at -= timezone;
    time_t days = at / 86400, seconds = at % 86400;
    to->tm_hour = seconds / 3600;
    to->tm_min = seconds % 3600 / 60;
    to->tm_sec = seconds % 60;
    to->tm_wday = (days + 4) % 7;
    for (to->tm_year = 1970;; to->tm_year++) {
        int year = to->tm_year;
        int leaps = !(year % 4) && (year % 100 || !(year % 400));
        if (days < 365 + leaps) {
            break;
        }
        days -= 365 + leaps;
    }
    to->tm_yday = days;
}

static void once(int thread, int round) {
    struct tm parts;
    time_t at = 1700000000 + round;
    if (mended) {
        without_lock(at, &parts);
    } else {
        localtime_r(&at, &parts);
    }
    found[thread].sum += parts.tm_sec;
    work(100);
}
