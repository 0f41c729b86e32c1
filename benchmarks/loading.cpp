// Images per second of the loader alone, over the images in a folder: bench_loading FOLDER WORKERS IMAGES.
// Images get random resized crops to 224×224, flips and normalisation, as in training for ImageNet.

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <iostream>

#include "data/formats/image_files.h"
#include "data/loader/loader.h"

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: bench_loading FOLDER WORKERS IMAGES\n";
    return 2;
  }
  braid::LoaderOptions options{.batch_size = 64, .shuffle = true, .workers = std::atoi(argv[2])};
  options.transform.flip = options.transform.random_resized_crop = true;
  options.transform.mean = {0.485f, 0.456f, 0.406f};
  options.transform.std = {0.229f, 0.224f, 0.225f};
  braid::Loader loader(braid::image_folder(argv[1], braid::Split::train, {.val_share = 1e-9}), options);
  const std::int64_t wanted = std::atoll(argv[3]);
  std::int64_t images = 0;
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  while (images < wanted) {
    for (const braid::Batch& batch : loader) {
      images += batch.size();
      if (images >= wanted) break;
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << "{\"images\": " << images << ", \"seconds\": " << seconds
            << ", \"cpu_seconds\": " << static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC << "}\n";
} catch (const std::exception& error) {
  std::cerr << "bench_loading: " << error.what() << '\n';
  return 1;
}
