
(function () {
  "use strict";
  var list = document.getElementById("tests");
  var tests = Array.prototype.slice.call(list.children);
  var text = tests.map(function (test) { return test.textContent.toLowerCase(); });
  var search = document.getElementById("search");
  var filters = Array.prototype.slice.call(document.querySelectorAll("[data-filter]"));
  var heads = Array.prototype.slice.call(document.querySelectorAll("[data-sort]"));
  var unfold = document.getElementById("unfold");
  var wanted = "";

  function show() {
    var words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0;
    tests.forEach(function (test, place) {
      var match = (!wanted || test.dataset.outcome === wanted) && words.every(function (word) { return text[place].indexOf(word) >= 0; });
      test.hidden = !match;
      shown += match ? 1 : 0;
    });
    document.getElementById("none").hidden = shown > 0;
  }

  function sort(head) {
    var name = head.dataset.sort;
    var worded = name === "test" || name === "verdict";
    var before = head.getAttribute("aria-sort");
    var down = before ? before === "ascending" : !worded;
    heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    function compare(one, other) {
      var a = one.dataset[name], b = other.dataset[name];
      if (a === "" || b === "") { return (a === "" ? 1 : 0) - (b === "" ? 1 : 0); }
      var order = worded ? a.localeCompare(b, undefined, { numeric: true }) : parseFloat(a) - parseFloat(b);
      return down ? -order : order;
    }
    tests.slice().sort(compare).forEach(function (test) { list.appendChild(test); });
  }

  search.addEventListener("input", show);
  filters.forEach(function (button) {
    button.addEventListener("click", function () {
      wanted = button.dataset.filter;
      filters.forEach(function (other) { other.setAttribute("aria-pressed", String(other === button)); });
      show();
    });
  });
  heads.forEach(function (head) { head.addEventListener("click", function () { sort(head); }); });
  unfold.addEventListener("click", function () {
    var open = unfold.textContent === "open all";
    tests.forEach(function (test) { test.open = open; });
    unfold.textContent = open ? "close all" : "open all";
  });

  var selection = document.querySelector(".selection");
  if (selection && matchMedia("(max-width: 760px)").matches) { selection.open = false; }

  var root = document.documentElement;
  function stored(value) {
    try { return value ? localStorage.setItem("theme", value) : localStorage.getItem("theme"); } catch (error) { return null; }
  }
  var theme = stored();
  if (theme === "dark" || theme === "light") { root.dataset.theme = theme; }
  document.getElementById("theme").addEventListener("click", function () {
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    stored(root.dataset.theme);
  });
})();
