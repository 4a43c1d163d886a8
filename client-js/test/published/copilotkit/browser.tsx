import { createRoot } from "react-dom/client";

import Page from "./app/copilot/page";

createRoot(document.getElementById("root")!).render(<Page />);
