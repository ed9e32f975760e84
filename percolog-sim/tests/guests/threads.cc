// C++ threads: futures, a shared lock, a condition with a timeout, and exceptions that cross none of them.
#include <chrono>
#include <condition_variable>
#include <future>
#include <iostream>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

int main() {
    std::shared_mutex lock;
    long shared = 0;
    std::vector<std::future<long>> parts;
    for (long part = 0; part < 8; part++)
        parts.push_back(std::async(std::launch::async, [&, part] {
            for (int i = 0; i < 100; i++) {
                if (i % 10 == 0) {
                    std::unique_lock guard(lock);
                    shared++;
                } else {
                    std::shared_lock guard(lock);
                }
            }
            try {
                throw std::runtime_error("caught");
            } catch (const std::exception &) {
                return part;
            }
        }));
    long sum = 0;
    for (auto &part : parts)
        sum += part.get();
    std::mutex mutex;
    std::condition_variable condition;
    std::unique_lock guard(mutex);
    auto before = std::chrono::steady_clock::now();
    auto status = condition.wait_for(guard, std::chrono::seconds(10));
    auto waited = std::chrono::steady_clock::now() - before;
    std::cout << std::thread::hardware_concurrency() << ' ' << sum << ' ' << shared << ' '
              << (status == std::cv_status::timeout) << ' '
              << std::chrono::duration_cast<std::chrono::seconds>(waited).count() << '\n';
}
