// Sets the share of each domain in the batches. data.mixture is set when a slider is released.
#pragma once

#include <QWidget>
#include <vector>

class QGridLayout;
class QLabel;
class QPushButton;
class QSlider;

namespace moescope {

class MixtureEditor : public QWidget {
  Q_OBJECT

 public:
  explicit MixtureEditor(QWidget* parent = nullptr);
  void setDomains(const std::vector<std::string>& domains);
  // Sets the sliders without a signal. Empty: all sliders are equal, and the shares are those of the data.
  void setMixture(const std::string& text);

 signals:
  void mixtureChosen(QString text);

 private:
  struct Row {
    QLabel* name;
    QSlider* slider;
    QLabel* share;
  };
  void choose();
  void showShares();

  QGridLayout* grid_;
  QPushButton* even_;
  std::vector<std::string> domains_;
  std::vector<Row> rows_;
  bool as_data_lie_ = true;
};

}  // namespace moescope
