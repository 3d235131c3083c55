// Memory of the window during a long run: the window must free what it has allocated for earlier steps.
#include <QTest>
#include <algorithm>
#include <cmath>

#include "tests/support/long_window.h"
#include "tests/support/screen_test.h"

using namespace moescope;

class QtMemory : public QObject {
  Q_OBJECT

 private slots:
  // Memory without that of the history, which test_memory.cpp tests, always measured with the same workspace shown.
  void memoryBesideTheHistoryDoesNotGrow() {
    if (allocated_bytes() == 0) QSKIP("this build's allocator does not tell");
    LongWindow window(250, std::size_t{8} << 20);  // arrays are full after 1,000 steps
    const auto beside_after_rounds = [&](int rounds) {
      window.go_on_to(rounds * window.steps_of_all_workspaces());
      const History& history = window.history();
      const double bytes =
          static_cast<double>(allocated_bytes()) - static_cast<double>(history.array_bytes() + history.scalar_bytes());
      qInfo("%lld steps: %.0f kB beside the history", static_cast<long long>(history.steps().size()), bytes / 1e3);
      return bytes;
    };
    // A worker that computes at the end of a round holds a few megabytes, so that the least of five rounds are
    // compared. The first round fills caches.
    double early = INFINITY, late = INFINITY;
    for (int round = 2; round <= 6; ++round) early = std::min(early, beside_after_rounds(round));
    for (int round = 7; round <= 11; ++round) late = std::min(late, beside_after_rounds(round));
    QVERIFY2(late - early < 1e6, qPrintable(QString("%1 kB more").arg((late - early) / 1e3)));
  }
};

SCREEN_TEST(QtMemory)
#include "qt_memory.moc"
