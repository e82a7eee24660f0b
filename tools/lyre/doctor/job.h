#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lyre::tools {

/// A process of a job, with its environment and its file system, which may be a container's.
struct Job {
  int32_t pid = 0;
  std::string program;                   ///< "python3"
  std::string root;                      ///< where its file system is: "/proc/4711/root"
  std::vector<std::string> environment;  ///< "NAME=value", as it was started
  std::vector<std::string> loaded;       ///< libraries that it has mapped, in its file system
  uint32_t uid = 0;
  std::vector<uint32_t> gids;
};

/// `proc`: where the kernel shows processes.
/// Fails: throws Failure: there is no such process, or this user may not look at it.
Job job_of(int32_t pid, const std::string& proc = "/proc");

/// The variable's value in the environment, or empty.
std::string variable_of(const Job& job, const std::string& name);

/// Where this process finds a file of the job's: its root, and the path with symbolic links
/// followed within that root. Empty: it is not there.
std::string file_of(const Job& job, const std::string& path);

/// The path, in the job's file system, of the library that dlopen(3) of this name opens there;
/// empty: none is found. Run paths of programs are not looked at.
std::string library_of(const Job& job, const std::string& name);

/// The home directory of its user; empty: unknown.
std::string home_of(const Job& job);

}  // namespace lyre::tools
