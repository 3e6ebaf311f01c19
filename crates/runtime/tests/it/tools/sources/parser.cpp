#include <string>
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define PLAIN 3

using Name = std::string;
typedef unsigned long ulong_t;
typedef struct {
    int x;
} point_t;

enum class Kind : int { Word, End };
struct Forward;

namespace text {
namespace {
int hidden() { return 1; }
}

// Parses.
template <typename T, int N = 3>
class Parser : public Base<T> {
public:
    explicit Parser(std::string text) : text_(std::move(text)) {}
    ~Parser();
    virtual int push(const T &token, bool strict = false) = 0;
    bool operator==(const Parser &other) const { return true; }
    static Parser *make();
    struct Inner {
        int depth;
        void push();
    };
private:
    std::string text_;
};

template <typename T, int N>
Parser<T, N>::~Parser() {}
}  // namespace text

int *text::find(const char *name,
                int length) {
    auto f = [](int a) { return a; };
    return nullptr;
}

#ifdef __cplusplus
extern "C" {
#endif
const char *version(void);
int main(int argc, char **argv) { return 0; }
#ifdef __cplusplus
}
#endif
