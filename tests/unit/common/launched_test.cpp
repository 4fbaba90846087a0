// Which kernels a fault is put down to.
#include "backends/common/launched.h"

#include <catch2/catch_test_macros.hpp>

namespace kdart::test {

using common::Launched;
using common::suspects;
using Names = std::vector<std::string_view>;

TEST_CASE("a stream's last launches are known by name, oldest first", "[launched][no-device]") {
  const std::string a = "a", b = "b", c = "c";
  Launched launched;
  CHECK(launched.names().empty());
  launched.add(&b);
  launched.add(&a);
  launched.add(&b);
  CHECK(launched.count() == 3);
  CHECK(launched.names() == Names{"b", "a"});
  for (int i = 0; i < 7; ++i) launched.add(&c);
  CHECK(launched.names() == Names{"b", "c"});  // the last eight
  launched.add(&a);
  CHECK(launched.names() == Names{"c", "a"});
}

TEST_CASE("launches that came while a stream was waited for stay", "[launched][no-device]") {
  const std::string a = "a", b = "b";
  Launched launched;
  launched.add(&a);
  const std::uint32_t before = launched.count();
  launched.add(&b);
  launched.forget(before);
  CHECK(launched.names() == Names{"a", "b"});
  launched.forget(launched.count());
  CHECK(launched.names().empty());
  launched.add(&b);
  CHECK(launched.names() == Names{"b"});
}

TEST_CASE("suspects are named as surely as they are known", "[launched][no-device]") {
  const std::string a = "a", b = "b";
  Launched first;
  Launched second;
  CHECK(suspects({}).empty());
  CHECK(suspects({&first, &second}).empty());
  first.add(&a);
  CHECK(suspects({&first, &second}) == "kernel 'a'");
  second.add(&a);
  CHECK(suspects({&first, &second}) == "kernel 'a'");
  second.add(&b);
  CHECK(suspects({&first, &second}) == "one of the kernels 'a', 'b'");
  for (int i = 0; i < 8; ++i) first.add(&a);
  CHECK(suspects({&first, &second}) == "one of the kernels 'a', 'b' or of those launched before them");
}

TEST_CASE("a kernel that is launched over and over is not the only suspect", "[launched][no-device]") {
  const std::string a = "a", b = "b";
  Launched launched;
  launched.add(&b);
  for (int i = 0; i < 8; ++i) launched.add(&a);  // and b is forgotten
  CHECK(suspects({&launched}).find("launched before") != std::string::npos);
}

TEST_CASE("names last as long as the device", "[launched][no-device]") {
  common::Names names;
  const std::string* first = names.keep("scale");
  for (int i = 0; i < 100; ++i) static_cast<void>(names.keep(std::to_string(i)));
  CHECK(names.keep("scale") == first);
  CHECK(*first == "scale");
}

}  // namespace kdart::test
