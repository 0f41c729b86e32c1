// Files: a full disk, and what a crash would lose of them.

#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "apps/simulation/inside/inside.h"

namespace braid::simulation {

namespace {

/// Notes that a file has bytes that are not on the disk. False if the disk is full. Standard output and error are the
/// launcher's, and not files.
bool may_write(int descriptor) {
  struct stat status {};
  if (!is_inside() || descriptor <= 2 || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return true;
  may_switch();
  if (world->full_until > world->now) return errno = ENOSPC, false;
  UnsyncedFile* unused = nullptr;
  for (UnsyncedFile& file : world->files) {
    if (file.number == status.st_ino && file.device == status.st_dev) return true;
    if (file.number == 0) unused = &file;
  }
  if (unused != nullptr) *unused = {status.st_dev, status.st_ino, status.st_size};
  return true;
}

/// Notes a rename, and keeps the file that it replaces under another name.
void note_rename(const char* from, const char* to) {
  struct stat folder {};
  const auto unused = std::ranges::find(world->renames, 0U, &UnsyncedRename::number);
  if (std::max(std::strlen(from), std::strlen(to)) + 32 > sizeof(UnsyncedRename::to)) return;
  if (unused == world->renames.end() || stat(std::filesystem::path(to).parent_path().c_str(), &folder) != 0) return;
  UnsyncedRename rename{.number = ++world->last_rename,
                        .device = folder.st_dev,
                        .folder = folder.st_ino,
                        .from = {},
                        .to = {},
                        .replaced = {}};
  std::snprintf(rename.from.data(), rename.from.size(), "%s", from);
  std::snprintf(rename.to.data(), rename.to.size(), "%s", to);
  std::snprintf(rename.replaced.data(), rename.replaced.size(), "%s.replaced%d", to, static_cast<int>(rename.number));
  link(to, rename.replaced.data());
  *unused = rename;
}

}  // namespace

}  // namespace braid::simulation

using namespace braid::simulation;

extern "C" {

ssize_t write(int descriptor, const void* data, std::size_t size) {
  if (std::uint64_t count = 0; size == sizeof count) {
    std::memcpy(&count, data, size);
    if (write_event(descriptor, count)) return static_cast<ssize_t>(size);
  }
  return may_write(descriptor) ? BRAID_ORIGINAL(write)(descriptor, data, size) : -1;
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  return may_write(descriptor) ? BRAID_ORIGINAL(writev)(descriptor, parts, count) : -1;
}

int rename(const char* from, const char* to) noexcept {
  if (is_inside()) {
    may_switch();
    note_rename(from, to);
  }
  return BRAID_ORIGINAL(rename)(from, to);
}

int fsync(int descriptor) {
  if (!is_inside()) return BRAID_ORIGINAL(fsync)(descriptor);  // inside, only this file remembers what is on the disk
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return -1;
  may_switch();
  for (UnsyncedFile& file : world->files) {
    if (file.number == status.st_ino && file.device == status.st_dev) file.number = 0;
  }
  for (UnsyncedRename& rename : world->renames) {
    if (rename.number == 0 || rename.folder != status.st_ino || rename.device != status.st_dev) continue;
    unlink(rename.replaced.data());
    rename.number = 0;
  }
  return 0;
}

}  // extern "C"
