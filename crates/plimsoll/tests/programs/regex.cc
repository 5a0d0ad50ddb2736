#include <bits/stdc++.h>

int main() {
    std::map<std::string, std::regex> patterns;
    patterns["a"] = std::regex("a.*b");
    std::cout << std::regex_match("axb", patterns["a"]) << "\n";
}
