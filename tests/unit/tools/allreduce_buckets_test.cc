#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "tools/lyre/allreduce/buckets.h"
#include "tools/lyre/allreduce/failure.h"

namespace lyre::allreduce {
namespace {

constexpr uint64_t kMiBElements = (uint64_t{1} << 20) / sizeof(float);

std::vector<uint64_t> sizes(const std::vector<Bucket>& buckets) {
  std::vector<uint64_t> elements;
  for (const Bucket& bucket : buckets) elements.push_back(bucket.elements);
  return elements;
}

uint64_t total(const std::vector<Bucket>& buckets) {
  const std::vector<uint64_t> all = sizes(buckets);
  return std::accumulate(all.begin(), all.end(), uint64_t{0});
}

TEST(CutBuckets, StartsWithTheLastParameter) {
  const auto buckets = cut_buckets("m", {{"first", 5}, {"last", kMiBElements}});
  EXPECT_EQ(sizes(buckets), (std::vector<uint64_t>{kMiBElements, 5}));
}

TEST(CutBuckets, FirstBucketClosesAtOneMiBTheOthersAt25) {
  const std::vector<Parameter> parameters(60, {"p", kMiBElements});
  const auto buckets = cut_buckets("m", parameters);
  EXPECT_EQ(sizes(buckets), (std::vector<uint64_t>{kMiBElements, 25 * kMiBElements,
                                                   25 * kMiBElements, 9 * kMiBElements}));
}

TEST(CutBuckets, ATensorThatOverflowsStaysWholeAndClosesItsBucket) {
  const auto buckets = cut_buckets("m", {{"a", 1}, {"big", 100 * kMiBElements}, {"c", 1}});
  EXPECT_EQ(sizes(buckets), (std::vector<uint64_t>{100 * kMiBElements + 1, 1}));
  EXPECT_EQ(buckets[0].tensors, 2U);
  EXPECT_EQ(buckets[1].index, 1U);
}

TEST(CutBuckets, NoParametersNoBuckets) { EXPECT_TRUE(cut_buckets("m", {}).empty()); }

TEST(ModelFile, HoldsTheRealModels) {
  const std::string file = find_model_file();
  EXPECT_EQ(total(cut_buckets("resnet50", load_model(file, "resnet50"))), 25'557'032U);
  EXPECT_EQ(load_model(file, "resnet50").size(), 161U);
  EXPECT_EQ(total(cut_buckets("llama7b-layer", load_model(file, "llama7b-layer"))), 202'383'360U);
  // The classifier is registered last and is ready first; it is larger than the first bucket.
  EXPECT_EQ(cut_buckets("resnet50", load_model(file, "resnet50")).front().elements, 2'049'000U);
}

TEST(ModelFile, AnUnknownModelIsRefusedByName) {
  try {
    load_model(find_model_file(), "resnet51");
    FAIL() << "it was accepted";
  } catch (const UsageError& failure) {
    EXPECT_NE(std::string(failure.what()).find("resnet50"), std::string::npos) << failure.what();
  }
}

TEST(ModelFile, GarbageIsRefused) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("lyre-models-" + std::to_string(::getpid()));
  std::ofstream(file) << "{\"models\": [{\"name\": 3}";
  EXPECT_THROW(load_model(file.string(), "resnet50"), Failure);
  std::filesystem::remove(file);
  EXPECT_THROW(load_model(file.string(), "resnet50"), Failure);
}

}  // namespace
}  // namespace lyre::allreduce
