#include "tools/lyre/allreduce/buckets.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/lyre/allreduce/failure.h"

namespace lyre::allreduce {
namespace {

using nlohmann::json;

std::vector<Parameter> parse_parameters(const json& model) {
  std::vector<Parameter> parameters;
  for (const json& entry : model.at("parameters")) {
    Parameter parameter{entry.at("name").get<std::string>(), 1};
    for (const json& side : entry.at("shape")) parameter.elements *= side.get<uint64_t>();
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Failure(path + ": cannot be read");
  return json::parse(file);
}

}  // namespace

std::vector<Bucket> cut_buckets(const std::string& model, const std::vector<Parameter>& parameters,
                                uint64_t first_bucket_bytes, uint64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  Bucket open{.model = model};
  uint64_t limit = first_bucket_bytes;
  const auto close = [&] {
    buckets.push_back(open);
    open = Bucket{.model = model, .index = static_cast<uint32_t>(buckets.size())};
    limit = bucket_bytes;
  };
  for (auto it = parameters.rbegin(); it != parameters.rend(); ++it) {
    open.elements += it->elements;
    ++open.tensors;
    if (open.bytes() >= limit) close();
  }
  if (open.tensors > 0) close();
  return buckets;
}

std::vector<Parameter> load_model(const std::string& path, const std::string& model) {
  std::string known;
  try {
    const json file = read_json(path);
    for (const json& entry : file.at("models")) {
      if (entry.at("name") == model) return parse_parameters(entry);
      known.append(" ").append(entry.at("name").get<std::string>());
    }
  } catch (const json::exception& error) {
    throw Failure(path + ": " + error.what());
  }
  throw UsageError("no model named '" + model + "' in " + path + "; there are:" + known);
}

std::string find_model_file() {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  if (const char* dir = std::getenv("LYRE_DATA_DIR")) places.emplace_back(dir);
  std::error_code error;
  const fs::path executable_dir = fs::read_symlink("/proc/self/exe", error).parent_path();
  places.push_back(executable_dir);
  places.push_back(executable_dir / ".." / "share" / "lyre");
  places.emplace_back(LYRE_DATA_DIR);
  std::string looked_at;
  for (const fs::path& place : places) {
    const fs::path file = place / "models.json";
    if (fs::exists(file, error)) return file.lexically_normal().string();
    looked_at.append(" ").append(file.lexically_normal().string());
  }
  throw Failure("the model shapes were not found in" + looked_at);
}

}  // namespace lyre::allreduce
