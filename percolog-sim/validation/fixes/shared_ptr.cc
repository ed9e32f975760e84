// Settings in a std::shared_ptr that is handed on by value, which counts; and by reference.
#include "threads.h"
#include <memory>
#include <vector>

struct Settings {
    std::vector<int> values = std::vector<int>(64, 3);
};

static std::shared_ptr<Settings> settings;

static long by_reference(const Settings &settings, int round) {
    long sum = 0;
    for (int value = 0; value < 8; value++) {
        sum += settings.values[(round + value) & 63];
    }
    return sum;
}

static long by_value(std::shared_ptr<Settings> settings, int round) {
    return by_reference(*settings, round);
}

static void begin(void) {
    settings = std::make_shared<Settings>();
}

static void prepare(int thread) {}

static void once(int thread, int round) {
    found[thread].sum += mended ? by_reference(*settings, round) : by_value(settings, round);
    work(40);
}
