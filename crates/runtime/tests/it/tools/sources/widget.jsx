const React = require("react");
export const Button = ({ label, onClick }) => <button onClick={onClick}>{label}</button>;
export default class App extends React.Component {
  state = {};
  render() { return <Button label="a" />; }
}
var old = function (a, b) { return a; };
function plain() { return 1 }
