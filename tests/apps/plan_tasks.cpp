// Answers requests of the site's games natively, a line each, to compare with the answers in WebAssembly.

#include <iostream>

#include "apps/playground/tasks.h"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << braid::plan_tasks(braid::parse_json(line)) << '\n';
    } catch (const std::exception& error) {
      std::cout << braid::Json(error.what()).dump() << '\n';
    }
  }
}
