// C++'s operators new and delete: blocks, alignments, the new handler, std::bad_alloc. Prints the first mistake.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#define CHECK(promise)                                             \
    do {                                                           \
        if (!(promise)) {                                          \
            std::printf("line %d: not so: %s\n", __LINE__, #promise); \
            std::exit(1);                                          \
        }                                                          \
    } while (0)

static volatile std::size_t huge = std::numeric_limits<std::ptrdiff_t>::max();

struct alignas(256) Wide {
    char bytes[300];
};

static int calls = 0;

// Gives up at the third call, as the standard lets a handler: there is none any more.
static void handler() {
    if (++calls == 3)
        std::set_new_handler(nullptr);
}

struct Own {};

static void throwing_handler() { throw Own(); }

// Destructors on the way show that the unwinder finds its way through the operator.
struct Guard {
    int *count;
    ~Guard() { ++*count; }
};

template <typename Exception, typename Ask> static bool throws(Ask ask) {
    int unwound = 0;
    try {
        Guard guard{&unwound};
        ask();
    } catch (const Exception &) {
        return unwound == 1;
    }
    return false;
}

static void failures() {
    std::align_val_t align{256};
    CHECK(throws<std::bad_alloc>([] { ::operator delete(::operator new(huge)); }));
    CHECK(throws<std::bad_alloc>([] { ::operator delete[](::operator new[](huge)); }));
    CHECK(throws<std::bad_alloc>([=] { ::operator delete(::operator new(huge, align), align); }));
    CHECK(throws<std::bad_alloc>([=] { ::operator delete[](::operator new[](huge, align), align); }));
    CHECK(::operator new(huge, std::nothrow) == nullptr);
    CHECK(::operator new[](huge, std::nothrow) == nullptr);
    CHECK(::operator new(huge, align, std::nothrow) == nullptr);
    CHECK(::operator new[](huge, align, std::nothrow) == nullptr);
    std::set_new_handler(handler);
    CHECK(throws<std::bad_alloc>([] { ::operator delete(::operator new(huge)); }) && calls == 3);
    std::set_new_handler(throwing_handler);
    CHECK(throws<Own>([] { ::operator delete(::operator new(huge)); }));
    CHECK(throws<Own>([=] { ::operator delete(::operator new(huge, align), align); }));
    std::set_new_handler(nullptr);
}

int main() {
    failures();
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 20000; i++)
        map[std::to_string(i % 997)].push_back(i);
    std::size_t sum = 0;
    for (auto &entry : map)
        sum += entry.second.size();
    CHECK(sum == 20000);
    for (int i = 0; i < 100; i++) {
        auto wide = std::make_unique<Wide>();
        CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 256 == 0);
        std::unique_ptr<Wide[]> many(new Wide[i + 1]);
        CHECK(reinterpret_cast<std::uintptr_t>(many.get()) % 256 == 0);
        std::unique_ptr<std::string[]> strings(new std::string[i]);
        CHECK(::operator new(0) != nullptr);
    }
    std::puts("all promises kept");
    return 0;
}
